// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import "encoding/binary"

// The parts of HTTP/2 (RFC 9113) and of gRPC that the budget needs.
const (
	prefaceLength     = 24
	frameHeaderLength = 9
	messageHeader     = 5

	frameData    = 0x0
	frameHeaders = 0x1
	frameReset   = 0x3
	flagEnd      = 0x1
)

type frame struct {
	length int
	kind   byte
	ends   bool
	stream uint32
}

// frames finds the headers of frames in one direction of a connection.
type frames struct {
	skip   int // bytes until the next header
	header [frameHeaderLength]byte
	have   int
}

func (s *frames) scan(p []byte, each func(frame)) {
	for len(p) > 0 {
		if n := min(s.skip, len(p)); n > 0 {
			s.skip -= n
			p = p[n:]
			continue
		}
		n := copy(s.header[s.have:], p)
		s.have += n
		p = p[n:]
		if s.have < frameHeaderLength {
			return
		}
		s.have = 0
		h := s.header
		s.skip = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		each(frame{length: s.skip, kind: h[3], ends: h[4]&flagEnd != 0, stream: binary.BigEndian.Uint32(h[5:]) &^ (1 << 31)})
	}
}
