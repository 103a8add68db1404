// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

func TestLayout(t *testing.T) {
	long := strings.Repeat("a", 253)
	tests := []struct {
		name, reason string
		at           git.Repository
		cluster      appcontext.ClusterID
		object       appcontext.Object
		want         string
	}{
		{
			name: "plain", reason: "what most objects look like", cluster: edge1,
			object: appcontext.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
			want:   "edge+c1/shop/Deployment.apps/web.yaml",
		},
		{
			name: "core group", reason: "it has no name", at: git.Repository{Path: "fleet/prod"}, cluster: edge1,
			object: configMap("web.v1"), want: "fleet/prod/edge+c1/shop/ConfigMap/web.v1.yaml",
		},
		{
			name: "no namespace", reason: "a namespace cannot be called that", cluster: edge1,
			object: appcontext.Object{Kind: "Namespace", Name: "shop"}, want: "edge+c1/_cluster/Namespace/shop.yaml",
		},
		{
			name: "our name", reason: "it is taken", cluster: edge1,
			object: appcontext.Object{Kind: "ConfigMap", Namespace: "_cluster", Name: "_"},
			want:   "edge+c1/%5fcluster/ConfigMap/%5f.yaml",
		},
		{
			name: "capitals and colons", reason: "names of RBAC have them, and some file systems do not",
			cluster: appcontext.ClusterID{Provider: "Edge", Name: "c+1:A"},
			object:  appcontext.Object{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:Node"},
			want:    "%45dge+c+1%3a%41/_cluster/ClusterRole.rbac.authorization.k8s.io/system%3a%4eode.yaml",
		},
		{
			name: "traversal", reason: "nothing leaves its folder, or gets into git's",
			cluster: appcontext.ClusterID{Provider: "..", Name: "../.git"},
			object:  appcontext.Object{Group: "../x", Kind: "../Y", Namespace: ".git", Name: "../../etc/passwd"},
			want:    "%2e.+%2e.%2f.git/%2egit/%2e%2e%2fY.%2e.%2fx/%2e.%2f..%2fetc%2fpasswd.yaml",
		},
		{
			name: "kustomization", reason: "Flux and Kustomize read kustomization.yaml as something else", cluster: edge1,
			object: configMap("kustomization"), want: "edge+c1/shop/ConfigMap/%6bustomization.yaml",
		},
		{
			name: "cloudbuild", reason: "Flux leaves cloudbuild.yaml out", cluster: edge1,
			object: configMap("cloudbuild"), want: "edge+c1/shop/ConfigMap/%63loudbuild.yaml",
		},
		{
			name: "endings", reason: "Flux leaves out folders that are called so",
			cluster: appcontext.ClusterID{Provider: "edge", Name: "a.tar.gz"},
			object:  appcontext.Object{Group: "example.zip", Kind: "Thing", Namespace: "shop", Name: "a.zip"},
			want:    "edge+a.tar.g%7a/shop/Thing.example.zi%70/a.zip.yaml",
		},
		{
			name: "too long", reason: "a file name has 255 bytes at most", cluster: edge1,
			object: configMap(long), want: "edge+c1/shop/ConfigMap/" + long[:206] + "%-2ee6a5ab9e4c6d2e6ef2f1cf83d6ad2d.yaml",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.at.File(test.cluster, test.object)
			if test.name == "too long" {
				got, test.want = got[:len(got)-38], test.want[:len(test.want)-38] // the hash
			}
			if got != test.want {
				t.Errorf("File is %q, want %q: %s", got, test.want, test.reason)
			}
			if folder := test.at.Directory(test.cluster) + "/"; !strings.HasPrefix(got, folder) {
				t.Errorf("%q is not in Directory %q", got, folder)
			}
		})
	}
}

// FuzzLayout: paths are safe, and two objects never have the same path. Two objects of the same
// kind also differ on file systems that ignore case.
func FuzzLayout(f *testing.F) {
	f.Add("edge", "c1", "apps", "Deployment", "shop", "web", "edge", "c1", "apps", "Deployment", "Shop", "web")
	f.Add("a", "b+c", "", "A.b", "", "x", "a", "b+c", "b", "A", "_cluster", "x")
	f.Add("a", "b", "", "K", "n", strings.Repeat("x", 300), "a", "b", "", "K", "n", strings.Repeat("x", 301))
	f.Add("a", "b", "", "K", "", "", "a", "b", "", "K", "", "%")
	f.Add("a", "b", "", "", "", "x", "", "", "g", "", "", "x")
	f.Add("a", "b.zip", "zip", "K", "", "x", "a", "b.zi", "", "K.zip", "", "x")
	f.Fuzz(func(t *testing.T, p1, c1, g1, k1, ns1, n1, p2, c2, g2, k2, ns2, n2 string) {
		id1, id2 := appcontext.ClusterID{Provider: p1, Name: c1}, appcontext.ClusterID{Provider: p2, Name: c2}
		o1 := appcontext.Object{Group: g1, Kind: k1, Namespace: ns1, Name: n1}
		o2 := appcontext.Object{Group: g2, Kind: k2, Namespace: ns2, Name: n2}
		a, b := git.Repository{}.File(id1, o1), git.Repository{}.File(id2, o2)
		for _, file := range []string{a, b} {
			parts := strings.Split(file, "/")
			if len(parts) != 4 {
				t.Errorf("%q has %d parts", file, len(parts))
			}
			for _, part := range parts {
				if part == "" || strings.HasPrefix(part, ".") || len(part) > 255 {
					t.Errorf("%q has the part %q", file, part)
				}
				for _, c := range []byte(part) {
					if c <= ' ' || c > '~' || strings.IndexByte(`\:*?"<>|`, c) >= 0 {
						t.Errorf("%q has the byte %q", file, c)
					}
				}
			}
		}
		if same := id1 == id2 && o1 == o2; same != (a == b) {
			t.Errorf("%+v %+v is at %q, %+v %+v at %q", id1, o1, a, id2, o2, b)
		}
		if k1 == k2 && a != b && strings.EqualFold(a, b) {
			t.Errorf("%q and %q differ in capitals only", a, b)
		}
	})
}
