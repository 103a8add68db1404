// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"
	"math"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	workv1 "open-cluster-management.io/api/work/v1"
)

// ManifestBundle is the profile of sources and agents built on the OCM SDK
// (open-cluster-management.io/sdk-go v1.3.0), with its default topics:
// sources/<source>/clusters/<cluster>/… and the two broadcasts. [NewManifestBundle] returns a
// profile for other topics.
var ManifestBundle Profile = &manifestBundle{sources: "sources", clusters: "clusters"}

// ManifestBundleOptions are the parts of topics that deployments of the OCM SDK configure. The zero
// value gives [ManifestBundle].
type ManifestBundleOptions struct {
	// SourcesLevel is the fixed word before the source in every topic. Defaults to "sources".
	SourcesLevel string
	// ClustersLevel is the fixed word before the cluster in every topic. Defaults to "clusters";
	// some deployments use "consumers".
	ClustersLevel string
	// SharedGroup, if not empty, makes all subscriptions shared subscriptions of this group: one of
	// its clients receives each message.
	SharedGroup string
}

// NewManifestBundle returns the profile [ManifestBundle] with other topics. If an option cannot
// be one level of a topic, it returns an [*Error] with [CodeTopic] and the option's name.
func NewManifestBundle(o ManifestBundleOptions) (Profile, error) {
	p := &manifestBundle{
		sources: cmp.Or(o.SourcesLevel, "sources"), clusters: cmp.Or(o.ClustersLevel, "clusters"), group: o.SharedGroup,
	}
	for _, name := range [...]struct{ option, value string }{
		{"ManifestBundleOptions.SourcesLevel", p.sources},
		{"ManifestBundleOptions.ClustersLevel", p.clusters},
		{"ManifestBundleOptions.SharedGroup", p.group},
	} {
		if name.value == "" {
			continue // no group
		}
		if err := ValidateName(name.option, name.value); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// manifestBundle has the fixed words of its topics and the group of its subscriptions.
type manifestBundle struct {
	sources, clusters, group string
}

var _ Profile = &manifestBundle{}

func (*manifestBundle) Name() string { return "ManifestBundle" }

func (*manifestBundle) sealed() {}

// Traits: the version is a CloudEvents Integer, which has 32 bits.
func (*manifestBundle) Traits() Traits {
	return Traits{Binary: true, Bundle: true, MaxVersion: math.MaxInt32}
}

// ResourceID returns the UUIDv5, in the OID namespace, that the OCM SDK assigns to a work. The
// separator of the parts is also valid in names, so works of two clusters can have the same ID.
func (*manifestBundle) ResourceID(source, cluster, name string) string {
	text := source + "-manifestworks.work.open-cluster-management.io-" + cluster + "-" + name
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(text)).String()
}

func (*manifestBundle) StatusHash(status *workv1.ManifestWorkStatus) (string, error) {
	return bundleStatusHash(status)
}

func (p *manifestBundle) Encode(m Message) (string, *ce.Event, error) {
	d := &bundleDraft{draft: draft{ext: make(map[string]any, 12)}, profile: p}
	return d.encode(m, d)
}

func (p *manifestBundle) Decode(topic string, e *ce.Event) (Message, error) {
	m, err := p.decode(topic, e)
	return located(m, err, topic, e)
}

func (p *manifestBundle) decode(topic string, e *ce.Event) (Message, *Error) {
	addr, eventsOf, err := p.parse(topic)
	if err != nil {
		return nil, err
	}
	ctx, err := contextV1(e)
	if err != nil {
		return nil, err
	}
	var action Action
	var ok bool
	if addr.kind == kindPresence {
		ok = ctx.Type == bundleType+"."+wirePresence
	} else {
		addr.kind, action, ok = eventsOf.kindOf(ctx.Type, addr.broadcast)
	}
	if !ok {
		return nil, &Error{Code: CodeType, Field: "type", Reason: "is not one that belongs on this topic"}
	}
	r := &bundleReader{reader: reader{ext: lowerNames(ctx.Extensions)}}
	if cluster := r.text(attrClusterName); addr.ofSource && p.sources == p.clusters && cluster != "" {
		addr = address{kind: kindPresence, cluster: addr.source, broadcast: true} // the topic is the same for both
	}
	h := r.header(addr, ctx)
	switch addr.kind {
	case kindSpec:
		return r.spec(h, action, e, ctx)
	case kindStatus:
		return r.status(h, action, e, ctx)
	case kindSpecResync:
		return r.specResync(h, addr, e, ctx)
	case kindPresence:
		return r.presence(h)
	default:
		return r.statusResync(h, addr, e, ctx)
	}
}
