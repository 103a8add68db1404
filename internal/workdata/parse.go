// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// parser reads the data of a status event or a record in one pass, in the usual form of agents and
// of encoding/json. It gives up at other data: an unknown or duplicate member, null, a value of
// another type. Such data is decoded by reflection, which supports every version of the API. So
// both ways give the same result.
//
// A source stores one status for each work, so memory matters. Lists have no spare capacity and
// share one block per type. Frequent strings of agents need no memory, and other strings share
// blocks.
type parser struct {
	jsontext.Reader
	// The blocks of entries. Their capacity is the number of entries in the text; one more is an
	// error.
	conditions []metav1.Condition
	manifests  []workv1.ManifestCondition
	values     []workv1.FeedbackValue
	texts      textBlock
	// timeText is the text of the last time: most times in a status are the same.
	timeText []byte
	time     metav1.Time
}

// reasonOdd is the error that makes the parser give up. It is not reported.
const reasonOdd = "something unusual"

func (p *parser) odd() { p.Fail(reasonOdd) }

// parseStatus reads data of the enhancement or of a bundle. It returns false if reflection must
// decode it.
func parseStatus(data []byte, l Limits, of Object[workv1.ManifestWorkStatus]) (*workv1.ManifestWorkStatus, bool) {
	p := parser{Reader: l.reader(data)}
	p.blocks(data, l.Elements)
	s := &workv1.ManifestWorkStatus{}
	readObject(&p, s, of)
	return s, p.finish()
}

// blocks allocates the blocks. It counts the entries by the end of a member's name that no other
// name has, and that begins with a rare letter for speed. A quote inside a string has a backslash.
func (p *parser) blocks(data []byte, limit int) {
	p.conditions = block[metav1.Condition](data, `TransitionTime":`, limit)
	p.manifests = block[workv1.ManifestCondition](data, `Meta":`, limit)
	p.values = block[workv1.FeedbackValue](data, `Value":`, limit)
}

func block[T any](data []byte, name string, limit int) []T {
	if n := bytes.Count(data, []byte(name)); 0 < n && n <= limit {
		return make([]T, 0, n)
	}
	return nil
}

// finish reports whether there was no error, and the blocks are completely used.
func (p *parser) finish() bool {
	if p.End() != nil || len(p.conditions) < cap(p.conditions) || len(p.manifests) < cap(p.manifests) ||
		len(p.values) < cap(p.values) {
		return false
	}
	p.texts.flush()
	return true
}

// grow adds an entry to a block and returns it. Without room it returns nil, and the parser gives
// up.
func grow[T any](p *parser, block *[]T) *T {
	n := len(*block)
	if n == cap(*block) {
		p.odd()
		return nil
	}
	*block = (*block)[:n+1]
	return &(*block)[n]
}

// tail returns the entries of a block since from, as a list without spare capacity.
func tail[T any](block []T, from int) []T {
	if from == len(block) {
		return []T{}
	}
	return block[from:len(block):len(block)]
}

func readList[T any](p *parser, block *[]T, of Object[T]) []T {
	from := len(*block)
	for p.Open('['); p.Element(); {
		if entry := grow(p, block); entry != nil {
			readObject(p, entry, of)
		}
	}
	return tail(*block, from)
}

// readObject gives up at an unknown member, and if a member is there twice.
func readObject[T any](p *parser, to *T, of Object[T]) {
	seen := 0 // a bit for each member
	for p.Open('{'); p.Member(); {
		i := slices.IndexFunc(of, func(m Member[T]) bool { return m.Name == string(p.Key) })
		if i < 0 || seen&(1<<i) != 0 {
			p.odd()
			return
		}
		seen |= 1 << i
		p.member(of[i].At(to))
	}
}

func (p *parser) member(at any) {
	switch to := at.(type) {
	case *string:
		p.text(to)
	case *int32:
		*to = int32(p.integer(32))
	case *int64:
		*to = p.integer(64)
	case *metav1.Time:
		*to = p.timestamp()
	case **string:
		*to = new(string)
		p.text(*to)
	case **int64:
		*to = new(p.integer(64))
	case **bool:
		*to = new(p.boolean())
	case *[]metav1.Condition:
		*to = readList(p, &p.conditions, condition)
	case *[]workv1.ManifestCondition:
		*to = readList(p, &p.manifests, manifest)
	case *[]workv1.FeedbackValue:
		*to = readList(p, &p.values, value)
	case *workv1.ManifestResourceStatus:
		p.resources(to)
	case *workv1.ManifestResourceMeta:
		readObject(p, to, resource)
	case *workv1.StatusFeedbackResult:
		readObject(p, to, feedback)
	case *workv1.FieldValue:
		readObject(p, to, fieldValue)
	default:
		p.recordMember(at)
	}
}

// resources reads the list of manifests under the name of the enhancement or of the API. Reflection
// decides which one counts.
func (p *parser) resources(to *workv1.ManifestResourceStatus) {
	names := 0
	for p.Open('{'); p.Member(); {
		if name := string(p.Key); names > 0 || name != "manifestConditions" && name != "manifests" {
			p.odd()
			return
		}
		names++
		to.Manifests = readList(p, &p.manifests, manifest)
	}
}

// text reads a string. It may be set only when the block is flushed.
func (p *parser) text(to *string) {
	if text, ok := p.quoted(); ok {
		p.texts.keep(to, text)
	}
}

// quoted reads a string and returns its text, which may share memory with the data.
func (p *parser) quoted() ([]byte, bool) {
	if p.Peek() != '"' {
		p.odd()
		return nil, false
	}
	raw := p.Value()
	if raw == nil {
		return nil, false
	}
	return jsontext.Unquote(raw), true
}

func (p *parser) integer(bits int) int64 {
	n, err := strconv.ParseInt(string(p.Value()), 10, bits)
	if err != nil {
		p.odd()
	}
	return n
}

func (p *parser) boolean() bool {
	switch string(p.Value()) {
	case "true":
		return true
	case "false":
	default:
		p.odd()
	}
	return false
}

// timestamp reads a time of metav1.Time, where null is the zero time.
func (p *parser) timestamp() metav1.Time {
	if p.Peek() == 'n' {
		p.Value()
		return metav1.Time{}
	}
	text, _ := p.quoted()
	if len(text) > 0 && bytes.Equal(text, p.timeText) {
		return p.time
	}
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		p.odd()
	}
	p.timeText, p.time = text, metav1.Time{Time: t.Local()}
	return p.time
}
