// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// namespace is the namespace of the application's objects, on all clusters.
const namespace = "shop"

// site holds a broker, clusters with agents, and a hub.
type site struct {
	t      *testing.T
	broker *mosquitto.Broker
	ca     *certtest.Authority
	certs  string // the folder
	spokes []*spoke
	hub    *hub
}

// spoke is a cluster with its agent.
type spoke struct {
	*process // of the agent
	name     string
	cluster  *kube.Cluster
	core     kubernetes.Interface
	dynamic  dynamic.Interface
}

// newSite starts a site. The flags are added to the hub's flags for the broker and the first
// cluster.
func newSite(t *testing.T, clusters []string, flags ...string) *site {
	t.Helper()
	s := &site{t: t, ca: certtest.New(t), certs: t.TempDir()}
	s.startBroker()
	for _, name := range clusters {
		s.spokes = append(s.spokes, s.newSpoke(name))
	}
	flags = append(flags, "--source", "hub", "--kubeconfig", s.spokes[0].cluster.Kubeconfig())
	s.hub = newHub(t, true, append(s.reach("hub"), flags...)...)
	t.Cleanup(s.report)
	return s
}

// startBroker starts a broker with the files of examples/hub/mosquitto.
func (s *site) startBroker() {
	s.t.Helper()
	s.ca.Write(s.t, s.certs, "clients-ca")
	certFile, _ := s.ca.Issue(s.t, "broker").Write(s.t, s.certs, "broker")
	read := func(name string) string {
		content, err := os.ReadFile("../../../examples/hub/mosquitto/" + name)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(content)
	}
	acl := filepath.Join(s.certs, "acl")
	if err := os.WriteFile(acl, []byte(read("acl")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.broker = mosquitto.Start(s.t, mosquitto.Options{CertFile: certFile, Config: func(port int) string {
		return strings.NewReplacer("listener 8883", fmt.Sprintf("listener %d 127.0.0.1", port), "/etc/mosquitto/certs/",
			s.certs+"/", "/etc/mosquitto/acl", acl).
			Replace(read("mosquitto.conf"))
	}})
}

// reach returns the flags that connect a program to the broker with a name.
func (s *site) reach(name string) []string {
	s.t.Helper()
	certFile, keyFile := s.ca.Issue(s.t, name).Write(s.t, s.certs, name)
	return []string{"--broker", s.broker.URL(), "--broker-ca", filepath.Join(s.certs, "clients-ca.crt"), "--broker-cert",
		certFile, "--broker-key", keyFile}
}

func (s *site) newSpoke(name string) *spoke {
	s.t.Helper()
	cluster := kube.Start(s.t, kube.Options{CRDs: []string{"../../../appliedwork/v1alpha1", poolCRD(s.t)}})
	cluster.StartControllerManager()
	p := &spoke{
		name: name, cluster: cluster,
		core: kubernetes.NewForConfigOrDie(cluster.Config()), dynamic: dynamic.NewForConfigOrDie(cluster.Config()),
	}
	_, err := p.core.CoreV1().Namespaces().Create(s.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	p.process = newProcess(s.t, true, "agent", append(s.reach(name), "--cluster", name, "--source", "hub", "--kubeconfig",
		cluster.Kubeconfig(),
		"--store", filepath.Join(s.t.TempDir(), "agent.db"))...)
	return p
}

// objects returns the ConfigMaps, Deployments and Pools of the application and their UIDs. The
// content maps kind/name to data, replicas or size.
func (p *spoke) objects() (content, uids map[string]string, err error) {
	content, uids = map[string]string{}, map[string]string{}
	maps, err := p.core.CoreV1().ConfigMaps(namespace).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for _, m := range maps.Items {
		if m.Name != "kube-root-ca.crt" {
			content["ConfigMap/"+m.Name], uids["ConfigMap/"+m.Name] = fmt.Sprint(m.Data), string(m.UID)
		}
	}
	deployments, err := p.core.AppsV1().Deployments(namespace).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for _, d := range deployments.Items {
		content["Deployment/"+d.Name], uids["Deployment/"+d.Name] = fmt.Sprint(*d.Spec.Replicas), string(d.UID)
	}
	all, err := p.dynamic.Resource(pools).Namespace(namespace).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for _, u := range all.Items {
		size, _, _ := unstructured.NestedInt64(u.Object, "spec", "size")
		content["Pool/"+u.GetName()], uids["Pool/"+u.GetName()] = fmt.Sprint(size), string(u.GetUID())
	}
	return content, uids, nil
}

// has waits until a cluster has exactly the given objects.
func (p *spoke) has(want map[string]string) (uids map[string]string) {
	p.t.Helper()
	eventually(p.t, "the objects of "+p.name, func() error {
		got, ids, err := p.objects()
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("(-want +got)\n%s", cmp.Diff(want, got))
		}
		uids = ids
		return err
	})
	return uids
}

// clean waits until a cluster has no object of the hub.
func (p *spoke) clean() {
	p.t.Helper()
	p.has(map[string]string{})
	eventually(p.t, "no AppliedWork is left on "+p.name, func() error {
		list, err := p.dynamic.Resource(v1alpha1.GroupVersionResource).List(p.t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

// pretend reports the Deployment as running, in place of the cluster's controllers.
func (p *spoke) pretend(name string) {
	p.t.Helper()
	eventually(p.t, "the Deployment of "+p.name+" runs", func() error {
		d, err := p.core.AppsV1().Deployments(namespace).Get(p.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, 1, 1
		d.Status.AvailableReplicas, d.Status.ReadyReplicas = 1, 1
		_, err = p.core.AppsV1().Deployments(namespace).UpdateStatus(p.t.Context(), d, metav1.UpdateOptions{})
		return err
	})
}

// secret writes the Secret that the templates read, on the hub's own cluster.
func (s *site) secret(value string) {
	s.t.Helper()
	secrets := s.spokes[0].core.CoreV1().Secrets(metav1.NamespaceDefault)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, StringData: map[string]string{"password": value}}
	_, err := secrets.Create(s.t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(s.t.Context(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// report logs the hub's state if a test has failed.
func (s *site) report() {
	if !s.t.Failed() || s.hub.run == nil {
		return
	}
	for _, path := range []string{"/api/v1/status", "/"} {
		_, text, err := s.hub.call("GET", path)
		s.t.Logf("%s: %s %v", path, text, err)
	}
}
