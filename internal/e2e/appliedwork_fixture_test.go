// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var (
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	gadgets      = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
)

// auditPolicy logs each write with its result, except the control plane's own writes.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"omitManagedFields":true,"rules":[
{"level":"None","resources":[{"group":"","resources":["events"]},{"group":"coordination.k8s.io"}]},
{"level":"Metadata","verbs":["create","update","patch","delete","deletecollection"],"resources":[{"group":"multicluster.x-k8s.io"}]},
{"level":"RequestResponse","verbs":["create","update","patch","delete","deletecollection"]}]}`

// ground is a managed cluster with its garbage collector, and an audit log of all writes.
type ground struct {
	*kube.Cluster
	t     *testing.T
	audit string // the path of the audit log
	admin dynamic.Interface
}

type groundOptions struct {
	noController bool
	controller   []string                     // flags of the controller manager
	crd          *unstructured.Unstructured   // replaces our CRD
	kinds        []*unstructured.Unstructured // CRDs that are served before the controller manager discovers kinds
}

func newGround(t *testing.T, opts groundOptions) *ground {
	t.Helper()
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy.json")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &ground{t: t, audit: filepath.Join(folder, "audit.log")}
	g.Cluster = kube.Start(t, kube.Options{APIServerFlags: map[string][]string{
		"audit-policy-file": {policy}, "audit-log-path": {g.audit}, "audit-log-mode": {"blocking"},
		"audit-log-maxsize":     {"100000"}, // MiB: one file for a campaign of any length
		"max-requests-inflight": {"1000"}, "max-mutating-requests-inflight": {"1000"},
	}})
	config := g.Config()
	config.WarningHandler = rest.NoWarnings{}
	g.admin = dynamic.NewForConfigOrDie(config)
	kinds := slices.Concat(opts.kinds, []*unstructured.Unstructured{customCRD("example.com", "Gadget", "v1", "v2")})
	for _, crd := range kinds {
		g.create(crd)
	}
	if opts.crd != nil {
		g.create(opts.crd)
	}
	if err := v1alpha1.EnsureCRD(t.Context(),
		established{g.admin.Resource(v1alpha1.CRDResource), opts.crd != nil}); err != nil {
		t.Fatal(err)
	}
	for _, crd := range kinds {
		g.eventuallyServed(t, crd)
	}
	if !opts.noController {
		g.StartControllerManager(opts.controller...)
	}
	return g
}

// established waits for a CRD. It does not change a CRD that is not ours.
type established struct {
	v1alpha1.CRDClient
	foreign bool
}

func (e established) Update(
	ctx context.Context, obj *unstructured.Unstructured, options metav1.UpdateOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	if e.foreign {
		return obj, nil
	}
	return e.CRDClient.Update(ctx, obj, options, sub...)
}

// customCRD returns the CRD of a namespaced kind that preserves all fields. All versions are
// served, and the first one is stored.
func customCRD(group, kind string, versions ...string) *unstructured.Unstructured {
	crd := parsed(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.%[2]s"},
		"spec":{"group":%[2]q,"scope":"Namespaced","names":{"plural":%[1]q,"singular":%[3]q,"kind":%[4]q,"listKind":"%[4]sList"}}}`,
		pluralOf(kind), group, strings.ToLower(kind), kind)
	var all []any
	for i, version := range versions {
		all = append(all, parsed(`{"name":%q,"served":true,"storage":%t,
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, version, i == 0).Object)
	}
	_ = unstructured.SetNestedSlice(crd.Object, all, "spec", "versions")
	return crd
}

func pluralOf(kind string) string { return strings.ToLower(kind) + "s" }

// serve creates a CRD, and waits until its versions are served.
func (g *ground) serve(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	g.create(crd)
	g.eventuallyServed(t, crd)
}

func (g *ground) eventuallyServed(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	eventually(t, crd.GetName()+" is served", func() error { return g.isServed(crd) })
}

// isServed returns nil when exactly the expected versions of a CRD are served, and discovery lists
// them.
func (g *ground) isServed(crd *unstructured.Unstructured) error {
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	groups, err := discovery.NewDiscoveryClientForConfigOrDie(g.Config()).ServerGroups()
	if err != nil {
		return err
	}
	for _, v := range versions {
		version := v.(map[string]any)
		resource := schema.GroupVersionResource{Group: groupOf(crd), Version: version["name"].(string), Resource: plural}
		listed := slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
			return slices.Contains(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: resource.GroupVersion().String(),
				Version: resource.Version})
		})
		_, err := g.admin.Resource(resource).List(context.Background(), metav1.ListOptions{Limit: 1})
		switch is := version["served"] == true; {
		case is != listed:
			return fmt.Errorf("discovery lists %s: %t", resource, listed)
		case is && err != nil:
			return err
		case !is && err == nil:
			return fmt.Errorf("%s is served", resource)
		case !is && !appliedwork.IsTypeNotServed(err):
			return fmt.Errorf("IsTypeNotServed does not know %w", err)
		}
	}
	return nil
}

func groupOf(crd *unstructured.Unstructured) string {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	return group
}

// tools are the helpers with their own client, like those of a process on the cluster.
type tools struct {
	tracker   *appliedwork.Tracker
	applier   *appliedwork.Applier
	pruner    *appliedwork.Pruner
	collector *appliedwork.Collector
}

// tools returns helpers that reach the server with config.
func (g *ground) tools(config *rest.Config, change func(*appliedwork.Options)) tools {
	g.t.Helper()
	config.QPS, config.Burst, config.WarningHandler = 2000, 4000, rest.NoWarnings{}
	opts := appliedwork.Options{
		Client: dynamic.NewForConfigOrDie(config), Metadata: metadata.NewForConfigOrDie(config),
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config),
	}
	if change != nil {
		change(&opts)
	}
	tracker, err := appliedwork.NewTracker(opts)
	if err != nil {
		g.t.Fatal(err)
	}
	return tools{tracker, appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker),
		appliedwork.NewCollector(tracker)}
}

func (g *ground) plain(change func(*appliedwork.Options)) tools {
	return g.agent("plain", change)
}

// agent returns helpers with a user agent that identifies them in the audit log.
func (g *ground) agent(name string, change func(*appliedwork.Options)) tools {
	config := g.Config()
	config.UserAgent = agentPrefix + name
	return g.tools(config, change)
}

func (x tools) ensure(t *testing.T, name string) *v1alpha1.AppliedWork {
	t.Helper()
	work, err := x.tracker.Ensure(t.Context(), name, v1alpha1.AppliedWorkSpec{WorkName: name, WorkNamespace: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	return work
}

func (x tools) apply(
	t *testing.T, work *v1alpha1.AppliedWork, objects ...*unstructured.Unstructured,
) *appliedwork.ChangeSet {
	t.Helper()
	changes, err := x.applier.Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func parsed(text string, args ...any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, text, args...), &obj.Object); err != nil {
		panic(err)
	}
	return obj
}

func configMapOf(namespace, name, value string) *unstructured.Unstructured {
	return parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":{"value":%q}}`,
		namespace, name, value)
}

func clusterRoleOf(name string) *unstructured.Unstructured {
	return parsed(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, name)
}

func gadgetOf(namespace, name string) *unstructured.Unstructured {
	return customOf("example.com/v1", "Gadget", namespace, name)
}

func customOf(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	return parsed(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q},"spec":{"size":"1"}}`, apiVersion,
		kind, namespace, name)
}

func namespaceOf(name string) *unstructured.Unstructured {
	return parsed(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
}

// at returns the admin's client for an object.
func (g *ground) at(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	resources := map[string]schema.GroupVersionResource{
		"ConfigMap": configMaps, "ClusterRole": clusterRoles, "Namespace": namespaces,
		"CustomResourceDefinition": v1alpha1.CRDResource, "AppliedWork": v1alpha1.GroupVersionResource,
		"ValidatingAdmissionPolicy": {Group: "admissionregistration.k8s.io", Version: "v1",
			Resource: "validatingadmissionpolicies"},
		"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1",
			Resource: "validatingadmissionpolicybindings"},
	}
	resource, ok := resources[obj.GetKind()]
	if !ok { // its CRD is made by customCRD
		resource = obj.GroupVersionKind().GroupVersion().WithResource(pluralOf(obj.GetKind()))
	}
	client := g.admin.Resource(resource)
	if obj.GetNamespace() != "" {
		return client.Namespace(obj.GetNamespace())
	}
	return client
}

func (g *ground) create(obj *unstructured.Unstructured) *unstructured.Unstructured {
	g.t.Helper()
	created, err := g.at(obj).Create(context.Background(), obj, metav1.CreateOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	return created
}

// get returns the live object, or nil.
func (g *ground) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	live, err := g.at(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return live
}

func (g *ground) eventuallyGone(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objects {
		eventually(t, obj.GetKind()+" "+obj.GetName()+" goes", func() error {
			_, err := g.at(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	}
}

// agentPrefix is the prefix of the user agents of our helpers. It identifies them in the audit log.
const agentPrefix = "appliedwork-agent/"
