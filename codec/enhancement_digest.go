// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

func (d *enhancementDraft) part(p Part) {
	if reason := p.valid(); reason != "" {
		d.fail(CodeAttribute, attrBuckets, reason, nil)
		return
	}
	d.text(attrBuckets, p.String())
}

func (r *enhancementReader) part() Part {
	text := r.text(attrBuckets)
	if text == "" {
		return Part{}
	}
	var p Part
	count, listed, _ := strings.Cut(text, ":")
	p.Buckets = r.bucket(count)
	for number := range strings.SplitSeq(listed, ",") {
		if listed != "" && len(p.Listed) < MaxBuckets {
			p.Listed = append(p.Listed, r.bucket(number))
		}
	}
	if reason := p.valid(); reason != "" || p.IsZero() {
		r.fail(CodeAttribute, attrBuckets, "is not a number of buckets and a list of them")
		return Part{}
	}
	return p
}

func (r *enhancementReader) bucket(text string) int {
	n, ok := parseNumber(text)
	if !ok || n > MaxBuckets {
		r.fail(CodeAttribute, attrBuckets, "is not a number of buckets and a list of them")
		return 0
	}
	return int(n)
}

// digest drafts an agent's digest. It has no time, content type or cluster name: an idle agent
// sends one a minute.
func (d *enhancementDraft) digest(m *Digest) {
	d.names(m.Source, m.Cluster, true, true)
	d.topic = address{kind: kindSpecResync, source: m.Source, cluster: m.Cluster}.topic()
	d.eventType, d.source = typeDigest, m.Agent
	d.identity(&m.Header)
	if m.AgentSession == "" {
		d.fail(CodeAttribute, attrAgentSession, "is missing", nil)
	}
	d.id(attrAgentSession, m.AgentSession)
	switch {
	case !isBuckets(len(m.Sums)):
		d.fail(CodeAttribute, attrDigest, "has a number of sums that "+reasonBuckets, nil)
	case m.Works < 0:
		d.fail(CodeAttribute, attrDigest, "has a negative number of works", nil)
	}
	text := append(strconv.AppendInt(nil, int64(m.Works), 10), ':')
	var buf [8]byte
	for _, sum := range m.Sums {
		text = hex.AppendEncode(text, binary.BigEndian.AppendUint64(buf[:0], sum))
	}
	d.text(attrDigest, string(text))
}

func (r *enhancementReader) digest(h Header) (Message, *Error) {
	m := &Digest{Header: h, AgentSession: r.id(attrAgentSession)}
	works, sums, _ := strings.Cut(r.text(attrDigest), ":")
	n, ok := parseNumber(works)
	switch {
	case m.AgentSession == "":
		r.fail(CodeAttribute, attrAgentSession, "is missing")
	case !ok || n > 1<<31-1 || len(sums)%16 != 0 || !isBuckets(len(sums)/16):
		r.fail(CodeAttribute, attrDigest, "is not a number of works and their sums")
	}
	if r.err != nil {
		return nil, r.err
	}
	m.Works = int(n)
	for digits := range slices.Chunk([]byte(sums), 16) {
		sum, err := strconv.ParseUint(string(digits), 16, 64)
		if err != nil {
			r.fail(CodeAttribute, attrDigest, "is not a number of works and their sums")
			return nil, r.err
		}
		m.Sums = append(m.Sums, sum)
	}
	return m, nil
}
