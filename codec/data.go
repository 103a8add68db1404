// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	ce "github.com/cloudevents/sdk-go/v2/event"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// MaxDepth is the largest nesting depth of arrays and objects in an event, and of any JSON in it.
// It prevents hostile input from exhausting the stack. encoding/json and the API server's decoder
// stop at 10,000. The difference leaves room for levels around an event, for example those of a
// record in a store.
const MaxDepth = 9000

// manifestDepth is the number of levels above a manifest in a structured event: the event, its
// data, the list.
const manifestDepth = 3

// MaxManifestDepth is the largest nesting depth of a manifest that fits into an event.
const MaxManifestDepth = MaxDepth - manifestDepth

// MaxElements is the limit of list elements and map members in an event's data together. Manifests
// count as one element each. An element with two bytes of text can take hundreds of bytes in
// memory.
const MaxElements = 1 << 18

// payload returns the event's data without surrounding space, or nil if it is empty or null.
func payload(e *ce.Event, ctx *ce.EventContextV1) ([]byte, *Error) {
	data := bytes.Trim(e.DataEncoded, " \t\r\n")
	switch {
	case len(data) == 0 || isNull(data):
		return nil, nil
	case ctx.DataContentType != nil && !isJSONType(*ctx.DataContentType):
		return nil, &Error{Code: CodeData, Field: "datacontenttype", Reason: "must be " + contentTypeJSON}
	}
	return data, nil
}

// isNull reports whether a valid value is null.
func isNull(raw []byte) bool { return string(raw) == "null" }

func (d *draft) manifests(list []workv1.Manifest) {
	d.elements("data.manifests", len(list))
	d.name("manifests")
	d.data = append(d.data, '[')
	for i := range list {
		if i > 0 {
			d.data = append(d.data, ',')
		}
		d.manifest(i, &list[i])
	}
	d.data = append(d.data, ']')
}

// manifest appends one manifest unchanged, after one validating scan.
func (d *draft) manifest(i int, m *workv1.Manifest) {
	raw := m.Raw
	if len(raw) == 0 && m.Object != nil {
		var err error
		if raw, err = json.Marshal(m.Object); err != nil {
			d.fail(CodeData, manifestField(i), "cannot be written as JSON", err)
			return
		}
	}
	c := jsontext.NewReader(raw, MaxManifestDepth, MaxElements)
	value := c.Value()
	switch err := c.End(); {
	case len(raw) == 0:
		d.fail(CodeData, manifestField(i), "is empty", nil)
	case err != nil:
		d.fail(CodeData, manifestField(i), "is not valid JSON", err)
	case value[0] != '{':
		d.fail(CodeData, manifestField(i), "is not an object", nil)
	default:
		d.data = append(d.data, value...)
	}
}

func manifestField(i int) string { return "data.manifests[" + strconv.Itoa(i) + "]" }

// json appends a small member.
func (d *draft) json(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		d.fail(CodeData, "data."+name, "cannot be written as JSON", err)
		return
	}
	d.elements("data."+name, jsontext.Count(text, MaxElements))
	d.name(name)
	d.data = append(d.data, text...)
}

// name appends the name of a member, and the comma before it.
func (d *draft) name(name string) {
	if d.data[len(d.data)-1] != '{' {
		d.data = append(d.data, ',')
	}
	d.data = append(jsontext.AppendString(d.data, name), ':')
}

// elements counts the same elements as Decode.
func (d *draft) elements(field string, n int) {
	if d.counted += n; d.counted > MaxElements {
		d.fail(CodeData, field, "has more than "+strconv.Itoa(MaxElements)+" elements", nil)
	}
}

// dataParser reads the data of an event. It keeps the first errors: a syntax error in the reader, a
// value of another form in bad.
type dataParser struct {
	jsontext.Reader
	bad *Error
	// list and index are the position of the current entry of a resync request. The path of a field
	// is built only if it is needed.
	list  string
	index int
}

func newReader(data []byte) jsontext.Reader { return jsontext.NewReader(data, MaxDepth, MaxElements) }

func (p *dataParser) fail(field, reason string, cause error) {
	if p.list != "" {
		field = entryField(p.list, p.index, field)
	}
	if p.bad == nil {
		p.bad = &Error{Code: CodeData, Field: field, Reason: reason, Err: cause}
	}
}

// finish checks that the data ends here and returns the first error. A syntax error has priority:
// invalid JSON has no fields.
func (p *dataParser) finish() *Error {
	if err := p.End(); err != nil {
		return &Error{Code: CodeData, Field: "data", Reason: reasonFor(err, "is not a JSON object"), Err: err}
	}
	return p.bad
}

// reasonFor returns the reason for an error of the JSON reader.
func reasonFor(err error, usual string) string {
	if syntax, ok := errors.AsType[*jsontext.SyntaxError](err); ok && syntax.TooMany {
		return "is too large"
	}
	return usual
}

// readJSON decodes a small member into target. A later member of the same name replaces the value.
func readJSON[T any](p *dataParser, field string, target *T) {
	*target = *new(T) // the decoder would merge into it
	raw := p.Value()
	if raw == nil || !p.Count(jsontext.Count(raw, MaxElements)) {
		return
	}
	if err := utiljson.Unmarshal(raw, target); err != nil {
		p.fail(field, "has another form than expected", err)
	}
}

// string reads a string; null is the empty string, as in Kubernetes.
func (p *dataParser) string(field string) string {
	raw := p.Value()
	s, ok := jsontext.Text(raw)
	if !ok && !isNull(raw) {
		p.fail(field, "is not a string", nil)
	}
	return s
}

// number reads a number from 0 to 2^63-1, as a number or as a decimal string; null is 0.
func (p *dataParser) number(field string) int64 {
	raw := p.Value()
	if raw == nil || isNull(raw) {
		return 0
	}
	if raw[0] == '"' {
		raw = jsontext.Unquote(raw)
	}
	n, ok := parseNumber(string(raw))
	if !ok {
		p.fail(field, "is not a decimal number from 0 to 2^63-1", nil)
	}
	return n
}

func (p *dataParser) manifests(t *workv1.ManifestsTemplate) {
	t.Manifests = nil
	switch p.Peek() {
	case '[':
	case 'n':
		p.Value()
		return
	default:
		p.Value()
		p.fail("data.manifests", "is not a list", nil)
		return
	}
	var buf [8][]byte
	list, size := buf[:0], 0
	for p.Open('['); p.Element(); {
		raw := p.Value()
		if len(raw) > 0 && raw[0] != '{' {
			p.fail(manifestField(len(list)), "is not an object", nil)
		}
		list = append(list, raw)
		size += len(raw)
	}
	if p.Err() != nil || len(list) == 0 {
		return
	}
	t.Manifests = make([]workv1.Manifest, len(list))
	var tight []byte
	if size <= copyLimit {
		tight = make([]byte, 0, size)
	}
	for i, raw := range list {
		if tight != nil {
			start := len(tight)
			tight = append(tight, raw...)
			raw = tight[start:len(tight):len(tight)]
		}
		t.Manifests[i].Raw = raw
	}
}

// copyLimit is the size in bytes up to which the manifests of a work are copied: a slice keeps the
// whole event in memory. Its attributes and metadata matter only in small events.
const copyLimit = 8 << 10
