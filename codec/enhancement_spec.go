// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	workv1 "open-cluster-management.io/api/work/v1"
)

func (d *enhancementDraft) spec(m *Spec) {
	d.names(m.Source, m.Cluster, true, true)
	d.topic = address{kind: kindSpec, source: m.Source, cluster: m.Cluster}.topic()
	d.eventType, d.source = typeSpecCreated, m.Source
	d.header(&m.Header)
	d.ref(&m.Header, &m.WorkRef, attrResourceID, attrResourceVersion)
	d.id(attrAgentSession, m.AgentSession)
	d.optionalNumber(attrStatusSeq, m.StatusSeq)
	if m.DeletionTimestamp == nil && m.nameless() {
		d.fail(CodeMismatch, attrResourceID, reasonForeign, nil)
	}
	if m.DeletionTimestamp != nil {
		// A zero time would be a deletion here, but not for metav1.Time.IsZero.
		if m.DeletionTimestamp.IsZero() || !isRFC3339(m.DeletionTimestamp.Time) {
			d.fail(CodeAttribute, attrDeletionTimestamp, reasonTime, nil)
		}
		d.ext[attrDeletionTimestamp] = m.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	if d.err != nil {
		return // the manifests are not encoded
	}
	switch {
	case m.Work != nil:
		d.work(m.Work, m.DeletionTimestamp != nil)
	case m.DeletionTimestamp == nil:
		d.fail(CodeData, "data", "is missing: only a deletion can do without a work", nil)
	}
}

func (r *enhancementReader) spec(h Header, e *ce.Event, ctx *ce.EventContextV1) (Message, *Error) {
	m := &Spec{
		Header:            h,
		WorkRef:           r.ref(&h, attrResourceID, attrResourceVersion),
		DeletionTimestamp: r.timestamp(attrDeletionTimestamp),
		AgentSession:      r.id(attrAgentSession),
		StatusSeq:         r.number(attrStatusSeq),
	}
	if m.DeletionTimestamp == nil && m.nameless() {
		r.fail(CodeMismatch, attrResourceID, reasonForeign)
	}
	if r.err != nil {
		return nil, r.err
	}
	// The caller also receives the message if only its data is invalid, to report it to the source.
	data, err := payload(e, ctx)
	if err != nil {
		return m, err
	}
	if m.Work, err = readWork(data, m.DeletionTimestamp != nil); err != nil {
		return m, err
	}
	m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
	return m, nil
}

// deleteOption is the API's DeleteOption with the orphaning rules at the level of the enhancement.
type deleteOption struct {
	workv1.DeleteOption
	// A pointer, since the API distinguishes empty rules from missing ones.
	SelectiveOrphaningRules *[]workv1.OrphaningRule `json:"selectiveOrphaningRules,omitempty"`
}

// work writes the data of a spec event: {"metadata":…,"manifests":[…],"deleteOption":…,…}; of a deletion,
// the metadata only.
func (d *enhancementDraft) work(w *workv1.ManifestWork, deletion bool) {
	d.data = append(make([]byte, 0, workSize(w, deletion)), `{"metadata":`...)
	d.metadata(&w.ObjectMeta)
	if !deletion {
		d.manifests(w.Spec.Workload.Manifests)
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

// options appends the parts of a spec other than the manifests. They are small and often absent, so
// encoding/json is fast enough.
func (d *enhancementDraft) options(s *workv1.ManifestWorkSpec) {
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
	p := dataParser{Reader: newReader(data)}
	hasManifests := false
	for p.Open('{'); p.Member(); {
		switch key := string(p.Key); {
		case key == "metadata":
			p.metadata(&w.ObjectMeta)
		case deletion:
			p.Value()
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
			p.Value()
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
