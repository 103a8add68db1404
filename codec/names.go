// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import "github.com/google/uuid"

// ResourceID returns the resource ID of a work in the profile [ManifestWork]: the UUIDv5, in the OID
// namespace, of `<source>/<cluster>/<name>`. It is the same after any restart.
func ResourceID(source, cluster, name string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(source+"/"+cluster+"/"+name)).String()
}
