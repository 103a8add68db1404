// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package broker

import (
	"os/exec"
	"syscall"
)

// apart keeps a Ctrl-C at the terminal from the broker: the program ends it when its clients are done.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
