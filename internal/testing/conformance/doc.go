// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance defines the behaviour of a ManifestWork clientset with scripts of calls and
// transcripts of their results. The end-to-end tests run the scripts on a real kube-apiserver and
// keep its transcripts in testdata. Package work runs the scripts on a source and an agent, with
// their clientsets and over HTTP. The end-to-end tests run them through an API server that forwards
// requests to a source. Their lines must be the same, except for listed differences with a reason.
//
// Results that depend on timing have no transcript. The rivalries check conditions that must hold
// in any order.
//
// A transcript has no times, UIDs or versions, only their relations: the same as before, or
// another.
package conformance
