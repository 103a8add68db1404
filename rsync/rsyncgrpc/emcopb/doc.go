// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package emcopb is the generated code of EMCO's services: installapp, updateapp and readyNotify.
//
// EMCO's files have no package, so their messages have names like InstallAppRequest. The registry
// of a process can contain each name only once. A program that links EMCO's own generated code, or
// another copy of it, would fail at its start with a conflict. Therefore these messages are only in
// [Registry]. Look for them by name there.
package emcopb

import "google.golang.org/protobuf/reflect/protoregistry"

//go:generate protogen --private Registry ../../proto .. github.com/spokewire/sdk-go/rsync/rsyncgrpc emco/installapp.proto emco/updateapp.proto emco/readynotify.proto

// Registry has the files and messages of this package. It must not be changed.
var Registry = struct {
	Files *protoregistry.Files
	Types *protoregistry.Types
}{new(protoregistry.Files), new(protoregistry.Types)}
