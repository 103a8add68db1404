// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package measure

import "net/netip"

// sockets returns false: this system is not supported.
func sockets(map[netip.AddrPort]bool) (map[netip.AddrPort]Bytes, bool) { return nil, false }
