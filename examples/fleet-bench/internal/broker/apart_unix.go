// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package broker

import (
	"os/exec"
	"syscall"
)

// apart prevents that a Ctrl-C at the terminal ends the broker: the program stops it after its
// clients.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
