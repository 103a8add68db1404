// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/connectortest"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

func TestKubeConformance(t *testing.T) {
	t.Parallel()
	connectortest.Run(t, func(t *testing.T) connectortest.Cluster {
		config, proxy := proxied(t, kube.Shared(t).Config())
		site := newKubeSite(t, config, kubeconnector.Options{})
		return connectortest.Cluster{
			Connector: site.connector, ID: kube1, Namespace: site.namespace,
			Break: func() { proxy.Block(); proxy.Cut() }, Mend: proxy.Unblock,
			Value: func(ctx context.Context, name string) (string, error) {
				have, err := site.client.CoreV1().ConfigMaps(site.namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				return have.Data["key"], nil
			},
		}
	})
}

// TestKubeConflict: fields of other managers are named and left unchanged, or taken by force. A
// field that is no longer in a manifest is removed.
func TestKubeConflict(t *testing.T) {
	s := newKubeSite(t, nil, kubeconnector.Options{})
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	patch := fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"key":"theirs","other":"theirs"}}`)
	if _, err := maps.Patch(t.Context(), "a", types.ApplyPatchType, patch,
		metav1.PatchOptions{FieldManager: "people"}); err != nil {
		t.Fatal(err)
	}
	last := "{apiVersion: v1, kind: ServiceAccount, metadata: {name: last, namespace: NS}}" // in a separate step
	err := s.connector.Apply(t.Context(), s.batch(manifestOf("first", "1"), manifestOf("a", "s3cr3t"), last))
	s.refused(err, connector.ErrTerminal, "ConfigMap "+s.namespace+"/a", ".data.key", `"people"`, "Options.Force")
	for manifest, exists := range map[string]bool{manifestOf("first", "1"): true, last: false} {
		if got := s.state(manifest); got.Exists != exists {
			t.Errorf("%s exists: %t", got.Object, got.Exists)
		}
	}
	force := openKube(t, s.config, kubeconnector.Options{Force: true})
	if err := force.Apply(t.Context(),
		s.batch(strings.Replace(manifestOf("a", "ours"), ", data: {", ", data: {own: x, ", 1))); err != nil {
		t.Fatal(err)
	}
	if err := force.Apply(t.Context(), s.batch(manifestOf("a", "ours"))); err != nil {
		t.Fatal(err)
	}
	got, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || fmt.Sprint(got.Data) != "map[key:ours other:theirs]" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestKubeDefinitions: CRDs, namespaces and their objects are applied in one batch, repeatedly.
// Objects of a deleted kind count as deleted.
func TestKubeDefinitions(t *testing.T) {
	s := newKubeSite(t, nil, kubeconnector.Options{})
	group, other := s.namespace+".example.com", s.namespace+".example.org"
	inner := strings.ReplaceAll(manifestOf("a", "1"), "NS", "NS-inner")
	all := []string{
		crd(group), crd(other), thing(group, "one", 1), thing(other, "one", 1),
		"{apiVersion: v1, kind: Namespace, metadata: {name: NS-inner}}", inner,
	}
	unknown := s.connector.Apply(t.Context(), s.batch(thing(group, "one", 1)))
	s.refused(unknown, connector.ErrTerminal, "Thing", "does not serve this kind")
	patient := openKube(t, s.config, kubeconnector.Options{AwaitKinds: true})
	s.refused(patient.Apply(t.Context(), s.batch(thing(group, "one", 1))), connector.ErrRetryable, "Thing",
		"does not serve this kind")
	for range 2 {
		s.apply(all...)
	}
	for _, m := range all {
		if got := s.state(m); !got.Exists || !got.Ready || got.Failed {
			t.Errorf("%+v", got)
		}
	}
	s.refused(s.connector.Apply(t.Context(), s.batch(strings.Replace(thing(group, "one", 1), "/v1", "/v2", 1))),
		connector.ErrTerminal, "Thing", `"v2", but in "v1"`)
	if got := s.state(strings.Replace(thing(group, "one", 1), "/v1", "/v0", 1)); !got.Exists {
		t.Error("what was applied in a version that is gone is not found")
	}
	// The reverse order of their creation. The CRD is deleted with its objects, and the kind
	// disappears soon.
	gone := []string{thing(group, "one", 1), crd(group)}
	if err := s.connector.Delete(t.Context(), s.batch(gone...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		for _, m := range gone {
			if got := s.state(m); got.Exists {
				return fmt.Sprintf("%+v", got)
			}
		}
		return ""
	})
	if err := s.connector.Delete(t.Context(), s.batch(gone...)); err != nil {
		t.Error(err)
	}
	s.apply(all...)
}

func TestKubeRefusals(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{MaxObjectBytes: 4000})
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: NS}, "
	for _, tt := range []struct {
		reason, manifest string
		class            error
		object           string
		parts            []string
	}{
		{"a field that is none", secret + "strinData: {a: s3cr3t}}", connector.ErrTerminal, "Secret",
			[]string{"no field .strinData"}},
		{"a value of another type", secret + "data: [s3cr3t]}", connector.ErrTerminal, "Secret", []string{"does not fit"}},
		{"a value that is no base64", secret + "data: {a: s3cr3t}}", connector.ErrTerminal, "Secret", nil},
		{"an invalid value", secret + `stringData: {"no key!": s3cr3t}}`, connector.ErrTerminal, "Secret",
			[]string{"invalid"}},
		{"over the limit", manifestOf("a", strings.Repeat("s3cr3t", 1000)), connector.ErrTerminal, "ConfigMap",
			[]string{"MaxObjectBytes"}},
		{"no namespace", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", connector.ErrTerminal, "ConfigMap",
			[]string{"no metadata.namespace"}},
		{"a namespace too many", "{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: NS}}",
			connector.ErrTerminal, "Namespace", []string{"are cluster-scoped"}},
		{"a namespace that is not there yet", strings.ReplaceAll(manifestOf("a", "s3cr3t"), "NS", "nowhere"),
			connector.ErrRetryable, "ConfigMap", []string{"namespace does not exist"}},
		{"a protected namespace", "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}", connector.ErrTerminal,
			"Namespace", []string{"protected"}},
		{"a kind that is none", "{apiVersion: v1, kind: Secrt, metadata: {name: a, namespace: NS}}", connector.ErrTerminal,
			"Secrt", []string{"does not serve"}},
		{"a name that goes elsewhere", "{apiVersion: v1, kind: ConfigMap, metadata: {name: .., namespace: NS}}",
			connector.ErrTerminal, "ConfigMap", []string{"name or namespace is invalid"}},
		{"a name that is none", "{apiVersion: v1, kind: ConfigMap, metadata: {name: A_b, namespace: NS}}",
			connector.ErrTerminal, "ConfigMap", []string{"metadata.name"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := *s
			s.t = t
			err := s.connector.Apply(t.Context(), s.batch(tt.manifest))
			s.refused(err, tt.class, tt.object, tt.parts...)
			t.Log(err)
			if tt.object == "Namespace" && len(tt.parts) > 0 && tt.parts[0] == "protected" {
				s.refused(s.connector.Delete(t.Context(), s.batch(tt.manifest)), tt.class, tt.object, tt.parts...)
				return
			}
			// An object that could not be applied does not block the termination of a context.
			if err := s.connector.Delete(t.Context(), s.batch(tt.manifest)); err != nil {
				t.Errorf("Delete: %v", err)
			}
			if got := s.state(tt.manifest); got.Exists {
				t.Errorf("%+v", got)
			}
		})
	}
	broken := s.batch(manifestOf("before", "1"), manifestOf("broken", "1"))
	broken.Resources[1].Manifest = []byte("{s3cr3t")
	s.refused(s.connector.Apply(t.Context(), broken), connector.ErrTerminal, "broken", "neither")
	if s.state(manifestOf("before", "1")).Exists {
		t.Error("of a batch with a broken manifest a part was applied")
	}
	// An object that was read from a server can be applied to a server.
	s.apply(strings.Replace(manifestOf("read", "1"), "namespace: NS",
		`namespace: NS, uid: x, resourceVersion: "1", managedFields: [], creationTimestamp: null`, 1))
}

// TestKubeDenied: each verb may be denied. The server still counts as reachable.
func TestKubeDenied(t *testing.T) {
	cluster := kube.Shared(t)
	s := newKubeSite(t, cluster.User("jane-"+fmt.Sprint(t.Name())), kubeconnector.Options{})
	b := s.batch(manifestOf("a", "s3cr3t"))
	s.refused(s.connector.Apply(t.Context(), b), connector.ErrTerminal, "ConfigMap", "cannot patch resource", s.namespace)
	s.refused(s.connector.Delete(t.Context(), b), connector.ErrTerminal, "ConfigMap", "cannot delete resource")
	_, err := s.connector.Get(t.Context(), b)
	s.refused(err, connector.ErrTerminal, "ConfigMap", "cannot get resource")
	if err := s.connector.Probe(t.Context()); err != nil {
		t.Errorf("Probe: %v", err)
	}
	unknown := cluster.Config()
	unknown.CertData, unknown.KeyData, unknown.BearerToken = nil, nil, "s3cr3t-token"
	stranger := openKube(t, unknown, kubeconnector.Options{})
	s.refused(stranger.Apply(t.Context(), b), connector.ErrRetryable, "ConfigMap", "does not accept the credentials")
	if err := stranger.Probe(t.Context()); err != nil {
		t.Errorf("Probe: %v", err)
	}
	// With the right to get but not to list, many objects are read one by one.
	user := "many-" + s.namespace
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "get"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "get"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
			Name: "get"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := s.client.RbacV1().Roles(s.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.RbacV1().RoleBindings(s.namespace).Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	getter := openKube(t, cluster.User(user), kubeconnector.Options{})
	var many []string
	for i := range 30 {
		many = append(many, manifestOf(fmt.Sprintf("m%d", i), "1"))
		if i%2 == 0 {
			mustCreate(t, s.client, s.namespace, fmt.Sprintf("m%d", i))
		}
	}
	eventually(t, func() string { // RBAC takes a moment
		for _, c := range []connector.Connector{getter, openKube(t, s.config, kubeconnector.Options{})} {
			states, err := c.Get(t.Context(), s.batch(many...))
			if err != nil {
				return err.Error()
			}
			for i, got := range states {
				if got.Exists != (i%2 == 0) || got.Name != fmt.Sprintf("m%d", i) {
					return fmt.Sprintf("%+v", got)
				}
			}
		}
		return ""
	})
}

func mustCreate(t *testing.T, client *kubernetes.Clientset, namespace, name string) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
