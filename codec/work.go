// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/json"
	"strconv"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// manifestDepth is the number of levels above a manifest in a structured event: the event, its
// data, the list.
const manifestDepth = 3

// deleteOption is the API's DeleteOption with the orphaning rules at the level of the enhancement.
// Fields of a later API are included without a change here.
type deleteOption struct {
	workv1.DeleteOption
	// A pointer, since the API distinguishes empty rules from missing ones.
	SelectiveOrphaningRules *[]workv1.OrphaningRule `json:"selectiveOrphaningRules,omitempty"`
}

// work writes the data of a spec event: {"metadata":…,"manifests":[…],"deleteOption":…,…}; of a deletion,
// the metadata only.
func (d *draft) work(w *workv1.ManifestWork, deletion bool) {
	d.data = append(make([]byte, 0, workSize(w, deletion)), `{"metadata":`...)
	d.metadata(&w.ObjectMeta)
	if !deletion {
		d.elements("data.manifests", len(w.Spec.Workload.Manifests))
		d.data = append(d.data, `,"manifests":[`...)
		for i := range w.Spec.Workload.Manifests {
			if i > 0 {
				d.data = append(d.data, ',')
			}
			d.manifest(i, &w.Spec.Workload.Manifests[i])
		}
		d.data = append(d.data, ']')
		d.options(&w.Spec)
	}
	d.data = append(d.data, '}')
}

// workSize estimates the encoded size of the data of a work in bytes, rather too high for usual
// works.
func workSize(w *workv1.ManifestWork, deletion bool) int {
	size := 128 + 256*len(w.OwnerReferences)
	for key, value := range w.Labels {
		size += len(key) + len(value) + 8
	}
	for key, value := range w.Annotations {
		size += len(key) + len(value) + 8
	}
	if deletion {
		return size
	}
	for i := range w.Spec.Workload.Manifests {
		size += len(w.Spec.Workload.Manifests[i].Raw) + 1
	}
	if w.Spec.DeleteOption != nil || w.Spec.Executor != nil {
		size += 256
	}
	return size + 256*len(w.Spec.ManifestConfigs)
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
	c := cursor{data: raw, depth: manifestDepth}
	value := c.value()
	switch err := c.end(); {
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

// options appends the parts of a spec other than the manifests.
//
// These parts are small and often absent: encoding/json is fast enough for them, and supports all
// their fields.
func (d *draft) options(s *workv1.ManifestWorkSpec) {
	if s.DeleteOption != nil {
		option := deleteOption{DeleteOption: *s.DeleteOption}
		if orphan := s.DeleteOption.SelectivelyOrphan; orphan != nil {
			rules := append([]workv1.OrphaningRule{}, orphan.OrphaningRules...)
			option.SelectivelyOrphan, option.SelectiveOrphaningRules = nil, &rules
		}
		d.json("deleteOption", option)
	}
	if len(s.ManifestConfigs) > 0 {
		d.json("manifestConfigs", s.ManifestConfigs)
	}
	if s.Executor != nil {
		d.json("executor", s.Executor)
	}
}

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

// elements counts the same elements as Decode.
func (d *draft) elements(field string, n int) {
	if d.counted += n; d.counted > MaxElements {
		d.fail(CodeData, field, "has "+reasonMany, nil)
	}
}

func manifestField(i int) string { return "data.manifests[" + strconv.Itoa(i) + "]" }

// readWork reads the data of a spec event. For a deletion it reads the metadata only, so that no
// other part can prevent a deletion.
func readWork(data []byte, deletion bool) (*workv1.ManifestWork, *Error) {
	w := &workv1.ManifestWork{}
	if data == nil {
		if !deletion {
			return nil, &Error{Code: CodeData, Field: "data", Reason: "is missing"}
		}
		return w, nil
	}
	p := dataParser{cursor: cursor{data: data}}
	hasManifests := false
	for p.open('{'); p.member(); {
		switch key := string(p.key); {
		case key == "metadata":
			p.metadata(&w.ObjectMeta)
		case deletion:
			p.value()
		case key == "manifests":
			hasManifests = true
			p.manifests(&w.Spec.Workload)
		case key == "deleteOption":
			p.deleteOption(&w.Spec)
		case key == "manifestConfigs":
			readJSON(&p, "data.manifestConfigs", &w.Spec.ManifestConfigs)
		case key == "executor":
			readJSON(&p, "data.executor", &w.Spec.Executor)
		default:
			p.value()
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	// A missing list does not count as empty: an empty list would remove everything from the
	// cluster.
	if !hasManifests && !deletion {
		return nil, &Error{Code: CodeData, Field: "data.manifests", Reason: "is missing"}
	}
	return w, nil
}

// dataParser reads the data of an event. It keeps the first errors: a syntax error in the cursor, a
// value of another form in bad.
type dataParser struct {
	cursor
	bad *Error
	// list and index are the position of the current entry of a resync request. The path of a field
	// is built only if it is needed.
	list  string
	index int
}

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
	if err := p.end(); err != nil {
		return &Error{Code: CodeData, Field: "data", Reason: reasonFor(err, "is not a JSON object"), Err: err}
	}
	return p.bad
}

// readJSON decodes a small member into target. A later member of the same name replaces the value.
func readJSON[T any](p *dataParser, field string, target *T) {
	*target = *new(T) // the decoder would merge into it
	raw := p.value()
	if raw == nil || !p.count(jsontext.Count(raw, MaxElements)) {
		return
	}
	if err := utiljson.Unmarshal(raw, target); err != nil {
		p.fail(field, "has another form than expected", err)
	}
}

func (p *dataParser) manifests(t *workv1.ManifestsTemplate) {
	t.Manifests = nil
	switch p.peek() {
	case '[':
	case 'n':
		p.value()
		return
	default:
		p.value()
		p.fail("data.manifests", "is not a list", nil)
		return
	}
	var buf [8][]byte
	list, size := buf[:0], 0
	for p.open('['); p.element(); {
		raw := p.value()
		if len(raw) > 0 && raw[0] != '{' {
			p.fail(manifestField(len(list)), "is not an object", nil)
		}
		list = append(list, raw)
		size += len(raw)
	}
	if p.err != nil || len(list) == 0 {
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

// copyLimit is the size in bytes up to which the manifests of a work are copied. A slice of an
// event keeps the whole event in memory, with its attributes and metadata. They have about half a
// KiB, which is much for a small event and little for a large one.
const copyLimit = 8 << 10

func (p *dataParser) deleteOption(s *workv1.ManifestWorkSpec) {
	var option *deleteOption
	readJSON(p, "data.deleteOption", &option)
	s.DeleteOption = nil
	if option == nil {
		return
	}
	s.DeleteOption = &option.DeleteOption
	if rules := option.SelectiveOrphaningRules; rules != nil {
		s.DeleteOption.SelectivelyOrphan = &workv1.SelectivelyOrphan{OrphaningRules: *rules}
	}
}
