// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package statusdata

import (
	"bytes"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// statusParser reads the data of a status event in one pass, in the usual form of agents. It gives
// up at other data: an unknown or duplicate member, null, a value of another type. Such data is
// decoded by reflection, which supports every version of the API. So both ways give the same
// result.
//
// A source stores one status for each work, so memory matters. Lists have no spare capacity and
// share one block per type. Frequent strings of agents need no memory, and other strings share
// blocks.
type statusParser struct {
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

func (p *statusParser) odd() { p.Fail(reasonOdd) }

// memberSet is the set of members that an object has had so far: one bit for each.
type memberSet uint16

// first makes the parser give up if an object has a member twice.
func (p *statusParser) first(seen *memberSet, bit int) {
	if *seen&(1<<bit) != 0 {
		p.odd()
	}
	*seen |= 1 << bit
}

// parseStatus reads data of the enhancement or of a bundle. It returns false if reflection must
// decode it.
func parseStatus(data []byte, l Limits, bundle bool) (*workv1.ManifestWorkStatus, bool) {
	p := statusParser{Reader: l.reader(data)}
	p.blocks(data, l.Elements)
	s := &workv1.ManifestWorkStatus{}
	var seen, seenInner memberSet
	for p.Open('{'); p.Member(); {
		switch key := string(p.Key); {
		case key == "conditions":
			p.first(&seen, 0)
			s.Conditions = p.conditionList()
		case key == "resourceStatus" && bundle:
			p.first(&seen, 1)
			s.ResourceStatus.Manifests = p.manifestList()
		case key == "resourceStatus":
			p.first(&seen, 1)
			for p.Open('{'); p.Member(); {
				switch string(p.Key) {
				case "manifestConditions", "manifests": // only one of both: reflection decides which one counts
					p.first(&seenInner, 0)
					s.ResourceStatus.Manifests = p.manifestList()
				default:
					p.odd()
				}
			}
		default:
			p.odd()
		}
	}
	return s, p.finish()
}

// blocks allocates the blocks. It counts the entries by the end of a member's name that no other
// name has, and that begins with a rare letter for speed. A quote inside a string has a backslash.
func (p *statusParser) blocks(data []byte, limit int) {
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
func (p *statusParser) finish() bool {
	if p.End() != nil || len(p.conditions) < cap(p.conditions) || len(p.manifests) < cap(p.manifests) ||
		len(p.values) < cap(p.values) {
		return false
	}
	p.texts.flush()
	return true
}

// grow adds an entry to a block and returns it. Without room it returns nil, and the parser gives
// up.
func grow[T any](p *statusParser, block *[]T) *T {
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

func (p *statusParser) conditionList() []metav1.Condition {
	from := len(p.conditions)
	for p.Open('['); p.Element(); {
		if c := grow(p, &p.conditions); c != nil {
			p.condition(c)
		}
	}
	return tail(p.conditions, from)
}

func (p *statusParser) condition(c *metav1.Condition) {
	var seen memberSet
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "type":
			p.first(&seen, 0)
			p.text(&c.Type)
		case "status":
			p.first(&seen, 1)
			p.text((*string)(&c.Status))
		case "observedGeneration":
			p.first(&seen, 2)
			c.ObservedGeneration = p.integer(64)
		case "lastTransitionTime":
			p.first(&seen, 3)
			c.LastTransitionTime = p.timestamp()
		case "reason":
			p.first(&seen, 4)
			p.text(&c.Reason)
		case "message":
			p.first(&seen, 5)
			p.text(&c.Message)
		default:
			p.odd()
		}
	}
}

func (p *statusParser) manifestList() []workv1.ManifestCondition {
	from := len(p.manifests)
	for p.Open('['); p.Element(); {
		if m := grow(p, &p.manifests); m != nil {
			p.manifest(m)
		}
	}
	return tail(p.manifests, from)
}

func (p *statusParser) manifest(m *workv1.ManifestCondition) {
	var seen memberSet
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "resourceMeta":
			p.first(&seen, 0)
			p.resource(&m.ResourceMeta)
		case "statusFeedback":
			p.first(&seen, 1)
			m.StatusFeedbacks.Values = p.feedback()
		case "conditions":
			p.first(&seen, 2)
			m.Conditions = p.conditionList()
		default:
			p.odd()
		}
	}
}

func (p *statusParser) resource(r *workv1.ManifestResourceMeta) {
	var seen memberSet
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "ordinal":
			p.first(&seen, 0)
			r.Ordinal = int32(p.integer(32))
		case "group":
			p.first(&seen, 1)
			p.text(&r.Group)
		case "version":
			p.first(&seen, 2)
			p.text(&r.Version)
		case "kind":
			p.first(&seen, 3)
			p.text(&r.Kind)
		case "resource":
			p.first(&seen, 4)
			p.text(&r.Resource)
		case "name":
			p.first(&seen, 5)
			p.text(&r.Name)
		case "namespace":
			p.first(&seen, 6)
			p.text(&r.Namespace)
		default:
			p.odd()
		}
	}
}

// feedback reads {"values":[…]}.
func (p *statusParser) feedback() (values []workv1.FeedbackValue) {
	var seen memberSet
	for p.Open('{'); p.Member(); {
		if string(p.Key) != "values" {
			p.odd()
			break
		}
		p.first(&seen, 0)
		from := len(p.values)
		for p.Open('['); p.Element(); {
			if v := grow(p, &p.values); v != nil {
				p.feedbackValue(v)
			}
		}
		values = tail(p.values, from)
	}
	return values
}

func (p *statusParser) feedbackValue(v *workv1.FeedbackValue) {
	var seen memberSet
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "name":
			p.first(&seen, 0)
			p.text(&v.Name)
		case "fieldValue":
			p.first(&seen, 1)
			p.fieldValue(&v.Value)
		default:
			p.odd()
		}
	}
}

func (p *statusParser) fieldValue(v *workv1.FieldValue) {
	var seen memberSet
	for p.Open('{'); p.Member(); {
		switch string(p.Key) {
		case "type":
			p.first(&seen, 0)
			p.text((*string)(&v.Type))
		case "integer":
			p.first(&seen, 1)
			v.Integer = new(int64)
			*v.Integer = p.integer(64)
		case "string":
			p.first(&seen, 2)
			v.String = new(string)
			p.text(v.String)
		case "boolean":
			p.first(&seen, 3)
			v.Boolean = new(bool)
			*v.Boolean = p.boolean()
		case "jsonRaw":
			p.first(&seen, 4)
			v.JsonRaw = new(string)
			p.text(v.JsonRaw)
		default:
			p.odd()
		}
	}
}

// text reads a string. It may be set only when the block is flushed.
func (p *statusParser) text(to *string) {
	if text, ok := p.quoted(); ok {
		p.texts.keep(to, text)
	}
}

// quoted reads a string and returns its text, which may share memory with the data.
func (p *statusParser) quoted() ([]byte, bool) {
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

func (p *statusParser) integer(bits int) int64 {
	n, err := strconv.ParseInt(string(p.Value()), 10, bits)
	if err != nil {
		p.odd()
	}
	return n
}

func (p *statusParser) boolean() bool {
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
func (p *statusParser) timestamp() metav1.Time {
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
