// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Content is the content of a revision. It must not be changed or copied after its first use.
type Content struct {
	// Apps have the resources on the clusters.
	Apps []appcontext.App
	// Source is what the content was made from, for example a document and the values of its
	// templates. It is stored in JSON: see [Manager.Source]. It may be nil.
	Source any

	once   sync.Once
	digest string
}

// Digest returns a hash of the apps, which identifies the content.
func (c *Content) Digest() string {
	c.once.Do(func() { c.digest = digestOf(c.Apps) })
	return c.digest
}

// SourceDigest returns a hash of the source: the Source of its revisions.
func (c *Content) SourceDigest() string { return digestOf(c.Source) }

// clusters returns the number of clusters.
func (c *Content) clusters() int {
	all := map[appcontext.ClusterID]bool{}
	for i := range c.Apps {
		for j := range c.Apps[i].Clusters {
			all[c.Apps[i].Clusters[j].ClusterID] = true
		}
	}
	return len(all)
}

func digestOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "" // a source is encoded again when it is stored, which returns the error
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Target is the wanted state of an application.
type Target struct {
	// Content is the content for the clusters; nil removes the application.
	Content *Content
	// Rollout is the rollout over the clusters. Nil means all clusters at once.
	Rollout *rsync.Rollout
	// Cause is the reason in a few words, and By the user, for the list of revisions.
	Cause, By string
	// Revision is the revision of a rollback. If its content is the same, it is used again instead
	// of a new revision.
	Revision int
}

func (t *Target) same(other *Target) bool {
	if t.Content == nil || other.Content == nil {
		return t.Content == other.Content
	}
	return t.Revision == other.Revision && reflect.DeepEqual(t.Rollout, other.Rollout) &&
		t.Content.Digest() == other.Content.Digest()
}
