// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sockets returns the bytes of each connection of this process to one of the servers, by local
// address. It only reads, so files may be opened and closed in the meantime.
func sockets(servers map[netip.AddrPort]bool) (map[netip.AddrPort]Bytes, bool) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, false
	}
	moved := map[netip.AddrPort]Bytes{}
	for _, file := range files {
		fd, err := strconv.Atoi(file.Name())
		if err != nil {
			continue
		}
		if peer, err := unix.Getpeername(fd); err != nil || !servers[addrOf(peer)] {
			continue
		}
		local, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			moved[addrOf(local)] = Bytes{Sent: int64(info.Bytes_acked), Received: int64(info.Bytes_received)}
		}
	}
	return moved, true
}

func addrOf(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
