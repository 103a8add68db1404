// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// # Probes
//
// Healthy says whether there is a connection, and since when and why not. For a liveness probe it is the wrong question: a
// restart brings no broker back and loses what waits in the outbox. [Source.Livez] and [Source.Readyz], and those of
// an [Agent], are made for probes; a manager of controller-runtime takes them as they are:
//
//	err = mgr.AddHealthzCheck("manifestworks", source.Livez)
//	err = mgr.AddReadyzCheck("manifestworks", source.Readyz)
package work
