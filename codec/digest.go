// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

// MaxBuckets is the largest number of buckets for works.
const MaxBuckets = 256

// Digest is a summary of an agent's works of one source. It is the agent's heartbeat. The source
// detects lost messages with it, at a small part of the cost of a list. Only [ManifestWork] has it.
type Digest struct {
	Header
	// AgentSession is the session of the agent process. Required.
	AgentSession string
	// Works is the number of works in the agent.
	Works int
	// Sums are the sums, modulo 2^64, of the hashes of the works in each bucket: one sum in a
	// heartbeat, the requested number in an answer to [ScopeDigest]. The number is a power of two
	// from 1 to [MaxBuckets]. Required.
	Sums []uint64
}

// Part selects works of a source on a cluster by buckets of their hashed resource IDs. The zero
// Part selects all works.
type Part struct {
	// Buckets is the number of buckets: a power of two, at most [MaxBuckets]. 0 stands for all
	// works.
	Buckets int
	// Listed are the buckets of the part, in ascending order; nil in a request for a [Digest],
	// which covers all buckets.
	Listed []int
}

// IsZero reports whether p selects all works.
func (p Part) IsZero() bool { return p.Buckets == 0 && len(p.Listed) == 0 }

// String returns p in the form of the attribute: the number of buckets, a colon, and the listed
// ones.
func (p Part) String() string {
	if p.IsZero() {
		return ""
	}
	out := strconv.AppendInt(nil, int64(p.Buckets), 10)
	for i, bucket := range p.Listed {
		separator := byte(',')
		if i == 0 {
			separator = ':'
		}
		out = strconv.AppendInt(append(out, separator), int64(bucket), 10)
	}
	return string(out)
}

// valid returns why p cannot be an attribute, or "".
func (p Part) valid() string {
	switch {
	case p.IsZero():
		return ""
	case !isBuckets(p.Buckets):
		return reasonBuckets
	}
	last := -1
	for _, bucket := range p.Listed {
		if bucket <= last || bucket >= p.Buckets {
			return "lists buckets that are not in ascending order below their number"
		}
		last = bucket
	}
	return ""
}

const reasonBuckets = "is not a power of two from 1 to 256"

func isBuckets(n int) bool { return n >= 1 && n <= MaxBuckets && n&(n-1) == 0 }

// part writes the attribute of a part.
func (d *draft) part(p Part) {
	if reason := p.valid(); reason != "" {
		d.fail(CodeAttribute, attrBuckets, reason, nil)
		return
	}
	d.text(attrBuckets, p.String())
}

// part reads the attribute of a part.
func (r *reader) part() Part {
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

func (r *reader) bucket(text string) int {
	n, ok := parseNumber(text)
	if !ok || n > MaxBuckets {
		r.fail(CodeAttribute, attrBuckets, "is not a number of buckets and a list of them")
		return 0
	}
	return int(n)
}

// digest drafts an agent's digest. It has no time, content type or cluster name: an idle agent
// sends one a minute.
func (d *draft) digest(m *Digest) {
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
	for _, sum := range m.Sums {
		text = hex.AppendEncode(text, []byte{
			byte(sum >> 56), byte(sum >> 48), byte(sum >> 40), byte(sum >> 32), byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum),
		})
	}
	d.text(attrDigest, string(text))
}

// digest reads an agent's digest.
func (r *reader) digest(h Header) (Message, *Error) {
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

// IsDigest reports whether an event is a [Digest], by its type alone.
func IsDigest(e *ce.Event) bool { return e != nil && e.Type() == typeDigest }
