// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package measure

import "net/netip"

// sockets is not known on this system.
func sockets(map[netip.AddrPort]bool) (map[netip.AddrPort]Bytes, bool) { return nil, false }
