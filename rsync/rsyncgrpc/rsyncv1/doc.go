// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsyncv1 is the generated code of the gRPC service rsync.v1.Engine. Go programs should use
// the client of package rsyncgrpc, which has the types and errors of package rsync.
package rsyncv1

//go:generate protogen ../../proto .. github.com/spokewire/sdk-go/rsync/rsyncgrpc rsync/v1/rsync.proto
