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
	// readablePart is how much of a work's name its AppliedWork's name shows.
	readablePart = 100
	// hashBytes of SHA-256 make collisions something that does not happen: 160 bits, 32 characters.
	hashBytes = 20
)

var nameEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NameFor returns the name of the AppliedWork for a work of a hub: a readable part, and a hash of
// hub, namespace and name. The result is a valid name of at most 133 characters. It is always the
// same for a work, and different for works of different hubs, namespaces or names.
func NameFor(hub, namespace, name string) string {
	h := sha256.New()
	for _, part := range []string{hub, namespace, name} {
		// With its length before it, no part can look like the end of another.
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

// shardName is the name of the n-th further AppliedWork, from 1, that holds entries of work. With the UID in it, it never
// means a shard of another AppliedWork that had the same name.
func shardName(work *v1alpha1.AppliedWork, n int) string {
	return fmt.Sprintf("%s-shard-%d-%s", sanitize(work.Name), n, work.UID)
}

// isInventoryOf reports whether an object with a key and labels is, or would be taken for, a part of the inventory of work.
func isInventoryOf(work *v1alpha1.AppliedWork, key Key, labels map[string]string) bool {
	if key.GroupKind() != v1alpha1.GroupVersionKind.GroupKind() {
		return false
	}
	uid := string(work.UID)
	return key.Name == work.Name || labels[v1alpha1.LabelShardOf] == uid || strings.HasSuffix(key.Name, "-"+uid)
}

// sanitize returns the beginning of s in characters that a name may have, without a separator at its ends.
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
