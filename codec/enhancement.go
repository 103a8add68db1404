// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"crypto/sha1"
	"math"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// ManifestWork is the profile of the event based ManifestWork enhancement, and the default. It has
// topics with a leading slash, one event type per kind of event, and attributes in lower case. It
// is compatible with peers that know only the enhancement, in both directions.
var ManifestWork Profile = manifestWork{}

// Event types of the profile. A spec event is always sent as created, also for updates and
// deletions. The other two are read from peers that distinguish them.
const (
	typeSpecCreated  = "io.open-cluster-management.v1.manifestwork.spec.created"
	typeSpecUpdated  = "io.open-cluster-management.v1.manifestwork.spec.updated"
	typeSpecDeleted  = "io.open-cluster-management.v1.manifestwork.spec.deleted"
	typeStatus       = "io.open-cluster-management.v1.manifestwork.status.created"
	typeSpecResync   = "io.open-cluster-management.v1.manifestwork.spec" + resyncRequested
	typeStatusResync = "io.open-cluster-management.v1.manifestwork.status" + resyncRequested
	typeDigest       = "io.open-cluster-management.v1.manifestwork.digest"
	typePresence     = "io.open-cluster-management.v1.manifestwork." + wirePresence

	resyncRequested = "resync.requested"
)

type manifestWork struct{}

// enhancementDraft has the parts of an event of the profile, enhancementReader reads its attributes.
type (
	enhancementDraft  struct{ draft }
	enhancementReader struct{ reader }
)

var _ drafter = &enhancementDraft{}

func (manifestWork) Name() string { return "ManifestWork" }

func (manifestWork) sealed() {}

func (manifestWork) Traits() Traits { return Traits{MaxVersion: math.MaxInt64} }

func (manifestWork) ResourceID(source, cluster, name string) string {
	return ResourceID(source, cluster, name)
}

func (manifestWork) StatusHash(status *workv1.ManifestWorkStatus) (string, error) {
	return StatusHash(status)
}

func (manifestWork) Encode(m Message) (string, *ce.Event, error) {
	d := &enhancementDraft{draft{ext: make(map[string]any, extensions(m))}}
	return d.encode(m, d)
}

// extensions returns the most extensions of a message. A map for eight has half the size of the next.
func extensions(m Message) int {
	switch m := m.(type) {
	case *Spec:
		if m != nil && m.ResyncID == "" && m.TraceParent == "" {
			return 8
		}
	case *Status:
		if m != nil && m.ResyncID == "" && m.TraceParent == "" {
			return 8
		}
	}
	return 12
}

func (p manifestWork) Decode(topic string, e *ce.Event) (Message, error) {
	m, err := p.decode(topic, e)
	return located(m, err, topic, e)
}

func (d *enhancementDraft) presence(m *Presence) {
	d.draftPresence(m, manifestWork{}.PresenceFilter(m.Source, m.Cluster), typePresence)
}

func (manifestWork) decode(topic string, e *ce.Event) (Message, *Error) {
	addr, err := parseTopic(topic)
	if err != nil {
		return nil, err
	}
	ctx, err := contextV1(e)
	if err != nil {
		return nil, err
	}
	if !addr.carries(ctx.Type) {
		return nil, &Error{Code: CodeType, Field: "type", Reason: "is not one that belongs on this topic"}
	}
	r := &enhancementReader{reader{ext: lowerNames(ctx.Extensions)}}
	h := r.header(addr, ctx)
	switch addr.kind {
	case kindSpec:
		return r.spec(h, e, ctx)
	case kindStatus:
		return r.status(h, e, ctx)
	case kindSpecResync:
		if ctx.Type == typeDigest {
			return r.digest(h)
		}
		return r.specResync(h, addr, e, ctx)
	case kindPresence:
		return r.presence(h)
	default:
		return r.statusResync(h, addr, e, ctx)
	}
}

// ref writes the identity of a work. Spec and status events have different names for the ID and the
// version.
func (d *enhancementDraft) ref(h *Header, w *WorkRef, idName, versionName string) {
	if w.ResourceID == "" {
		d.fail(CodeAttribute, idName, "is missing", nil)
	}
	d.id(idName, w.ResourceID)
	d.number(versionName, w.Version)
	d.id(attrWorkUID, string(w.UID))
	if w.named() {
		d.id(attrWorkName, w.Name)
	}
	if w.foreign(h) {
		d.fail(CodeMismatch, idName, reasonForeign, nil)
	}
}

// ref reads the identity of a work.
func (r *enhancementReader) ref(h *Header, idName string, versionNames ...string) WorkRef {
	w := WorkRef{ResourceID: r.id(idName), UID: types.UID(r.id(attrWorkUID)), Name: r.id(attrWorkName)}
	if w.ResourceID == "" {
		r.fail(CodeAttribute, idName, "is missing")
	}
	if w.Name == "" {
		w.Name = w.ResourceID
	}
	// The first name in the event counts, even if its value is invalid: a guess between two
	// versions could restore an old state.
	found := false
	for _, name := range versionNames {
		if r.text(name) != "" {
			w.Version, found = r.number(name), true
			break
		}
	}
	if !found {
		r.fail(CodeAttribute, versionNames[0], "is missing")
	}
	if w.foreign(h) {
		r.fail(CodeMismatch, idName, reasonForeign)
	}
	return w
}

const reasonForeign = "is not the resource ID of this source, cluster and work name"

// named reports whether the work's name is known. Otherwise it is the default, the resource ID.
func (w *WorkRef) named() bool { return w.Name != "" && w.Name != w.ResourceID }

// foreign reports whether the resource ID of an incarnation is not the ID of its work. Without the
// name it returns false: a source that deletes an unknown work of an agent's list has no name.
func (w *WorkRef) foreign(h *Header) bool {
	return w.UID != "" && w.named() && !isResourceID(w.ResourceID, h.Source, h.Cluster, w.Name)
}

// nameless reports whether the name of an incarnation is unknown. Only a deletion may have no name.
func (w *WorkRef) nameless() bool { return w.UID != "" && !w.named() }

// ResourceID returns the resource ID of a work in the profile [ManifestWork]: the UUIDv5, in the
// OID namespace, of `<source>/<cluster>/<name>`. It is the same after any restart.
func ResourceID(source, cluster, name string) string {
	return resourceUUID(source, cluster, name).String()
}

// resourceUUID is uuid.NewSHA1 without its allocations: the ID is checked on every event.
func resourceUUID(source, cluster, name string) (id uuid.UUID) {
	var buf [192]byte
	text := append(buf[:0], uuid.NameSpaceOID[:]...)
	text = append(append(text, source...), '/')
	text = append(append(text, cluster...), '/')
	sum := sha1.Sum(append(text, name...))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 5<<4 // version 5
	id[8] = id[8]&0x3f | 0x80 // RFC 4122 variant
	return id
}

// isResourceID reports whether id is the resource ID of the work.
func isResourceID(id, source, cluster, name string) bool {
	// uuid.Parse accepts other text forms, which are other IDs.
	u := resourceUUID(source, cluster, name)
	text, _ := u.MarshalText()
	return id == string(text)
}
