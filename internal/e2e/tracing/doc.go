// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracing tests the traces that the programs hub and agent export: with a real kube-apiserver,
// Mosquitto and an OTLP receiver.
package tracing
