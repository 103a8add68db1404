// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance says what a ManifestWork clientset does, by scripts of calls and transcripts of what came
// of them. The end-to-end tests run the scripts on a real kube-apiserver and keep its transcripts in testdata;
// package work runs them on a source and an agent and must give the same lines, but for the differences that
// are listed with a reason.
//
// What depends on who is faster has no transcript: the rivalries are bodies that must hold on all of them.
//
// A transcript has no times, UIDs or versions, only how they relate: the same as before, or another.
package conformance
