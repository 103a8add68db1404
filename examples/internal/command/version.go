// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// isVersion reports whether arguments are only a request for the version.
func isVersion(args []string) bool {
	return len(args) == 1 && (args[0] == "--version" || args[0] == "-version")
}

// version returns the line of --version. Go records the version of the module in the program: a tag,
// a pseudo-version of the commit, or (devel) for a build without git.
func version(program string) string {
	module := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		module = info.Main.Version
	}
	return fmt.Sprintf("%s %s %s %s/%s\n", program, module, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
