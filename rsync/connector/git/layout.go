// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

const (
	// clusterScoped is the folder of objects without a namespace. No namespace has this folder.
	clusterScoped = "_cluster"
	// placeholder keeps the folder of a cluster without objects, so its agent prunes.
	placeholder = ".gitkeep"
	extension   = ".yaml"
	// maxComponent limits a name, in bytes: file systems accept 255, with the extension.
	maxComponent = 240
)

// Directory returns the folder of a cluster in the repository, which its agent must read.
func (r Repository) Directory(cluster appcontext.ClusterID) string {
	return path.Join(r.directory(cluster)...)
}

// File returns the path of an object in the repository, regardless of app and context.
func (r Repository) File(cluster appcontext.ClusterID, object appcontext.Object) string {
	return path.Join(r.file(cluster, object)...)
}

func (r Repository) directory(cluster appcontext.ClusterID) []string {
	var out []string
	if r.Path != "" {
		out = strings.Split(r.Path, "/")
	}
	// A provider has no plus sign (see appcontext), so the first plus sign is the separator.
	return append(out, visible(shorten(escape(cluster.Provider, lower)+"+"+escape(cluster.Name, lower+"+"))))
}

func (r Repository) file(cluster appcontext.ClusterID, object appcontext.Object) []string {
	namespace := clusterScoped
	if object.Namespace != "" {
		namespace = component(object.Namespace)
	}
	kind := escape(object.Kind, upper)
	if object.Group != "" {
		kind += "." + escape(object.Group, lower)
	}
	name := component(object.Name)
	switch name {
	case "kustomization": // Kustomize and Flux would read it as a list of files, not as an object
		name = "%6bustomization"
	case "cloudbuild": // Flux ignores it
		name = "%63loudbuild"
	}
	return append(r.directory(cluster), namespace, visible(shorten(kind)), name+extension)
}

// Characters that stay. Other bytes become a percent sign and two hexadecimal digits.
const (
	lower = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

func component(name string) string { return shorten(escape(name, lower)) }

// leftOut are endings of names of files and folders that Flux ignores by default.
var leftOut = []string{".jpg", ".jpeg", ".gif", ".png", ".wmv", ".flv", ".tar.gz", ".zip"}

// visible escapes the last letter of a name with such an ending: a group may be example.zip.
func visible(name string) string {
	last := len(name) - 1
	if slices.ContainsFunc(leftOut, func(ending string) bool { return strings.HasSuffix(name, ending) }) {
		return fmt.Sprintf("%s%%%02x", name[:last], name[last])
	}
	return name
}

// escape returns the name of a file or folder. Two results also differ without case, and have no
// meaning for git, a file system or an agent. A dot or underscore at the beginning is escaped,
// because of "..", ".git" and the connector's own names. The empty name becomes "%".
func escape(name, plain string) string {
	if name == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if strings.IndexByte(plain, c) < 0 || i == 0 && (c == '.' || c == '_') {
			fmt.Fprintf(&b, "%%%02x", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// shorten replaces the end of a long name with a hash of the whole name. No other name has "%-".
func shorten(name string) string {
	if len(name) <= maxComponent {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "%-" + hex.EncodeToString(sum[:16])
	return name[:maxComponent-len(suffix)] + suffix
}

// checkPath validates a Repository's Path.
func checkPath(folder string) error {
	if folder == "" {
		return nil
	}
	for part := range strings.SplitSeq(folder, "/") {
		switch {
		case part == "":
			return fmt.Errorf("path %q begins or ends with a slash, or has two in a row", folder)
		case part == "." || part == "..":
			return fmt.Errorf("path %q has the part %q", folder, part)
		case strings.EqualFold(part, ".git") || strings.HasPrefix(strings.ToLower(part), "git~"):
			return fmt.Errorf("path %q has the part %q, which git rejects", folder, part)
		case len(part) > 255:
			return fmt.Errorf("path %q has a part of more than 255 bytes", folder)
		}
		for _, c := range part {
			if c < ' ' || c > '~' || c == '\\' {
				return fmt.Errorf("path %q has the character %q", folder, c)
			}
		}
	}
	return nil
}
