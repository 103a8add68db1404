// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	// readablePart is the length of the part of a work's name in the name of its AppliedWork.
	readablePart = 100
	// hashBytes is the length of a hash: 160 bits rule out collisions in practice.
	hashBytes = 20
)

var nameEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NameFor returns the name of the AppliedWork for a work of a hub: a readable part, and a hash of
// hub, namespace and name. It is a valid name of at most 133 characters, always the same for a
// work, and different for different works.
func NameFor(hub, namespace, name string) string {
	h := sha256.New()
	for _, part := range []string{hub, namespace, name} {
		// The length before each part keeps different parts from having the same concatenation.
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	hash := nameEncoding.EncodeToString(h.Sum(nil)[:hashBytes])
	if readable := sanitize(name); readable != "" {
		return readable + "-" + hash
	}
	return hash
}

// shardName returns the name of the n-th shard of work, counted from 1. The UID distinguishes it
// from shards of an earlier AppliedWork of the same name.
func shardName(work *v1alpha1.AppliedWork, n int) string {
	return fmt.Sprintf("%s-shard-%d-%s", sanitize(work.Name), n, work.UID)
}

// isInventoryOf reports whether an object is part of the inventory of work, or would be mistaken
// for a part.
func isInventoryOf(work *v1alpha1.AppliedWork, key Key, labels map[string]string) bool {
	if key.GroupKind() != v1alpha1.GroupVersionKind.GroupKind() {
		return false
	}
	uid := string(work.UID)
	return key.Name == work.Name || labels[v1alpha1.LabelShardOf] == uid || strings.HasSuffix(key.Name, "-"+uid)
}

// sanitize returns the first readablePart characters of s, without characters that a name may not
// have.
func sanitize(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, s)
	return strings.Trim(s[:min(len(s), readablePart)], "-")
}
