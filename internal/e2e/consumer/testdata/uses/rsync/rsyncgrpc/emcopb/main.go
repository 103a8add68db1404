// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use has messages of EMCO beside EMCO's own.
//
// Prints: shop, 3 files
package main

import (
	"fmt"

	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/emcopb"
)

func main() {
	request := &emcopb.InstallAppRequest{AppContext: "shop"}
	fmt.Printf("%s, %d files\n", request.GetAppContext(), emcopb.Registry.Files.NumFiles())
}
