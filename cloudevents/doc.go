// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudevents moves ManifestWorks between sources and agents as CloudEvents over a broker.
package cloudevents
