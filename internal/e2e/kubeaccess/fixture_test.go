// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/kubeaccess"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// hub is a gRPC server with the RBAC of an API server. The role of agents is OCM's, and it is bound to
// the groups of certificates as on OCM's hub, and to a service account in the namespace of the cluster.
type hub struct {
	t       *testing.T
	cluster *kube.Cluster
	client  *kubernetes.Clientset // with all rights
	signer  *ecdsa.PrivateKey     // the API server accepts its service account tokens
	ca      *certtest.Authority
	caFile  string
	addr    string
}

// agentRole is the role with this name in OCM.
const agentRole = "open-cluster-management:managedcluster:work"

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{t: t, ca: certtest.New(t)}
	folder := t.TempDir()
	keyFile := filepath.Join(folder, "signer.pub")
	h.signer = newSigner(t, keyFile)
	h.cluster = kube.Start(t, kube.Options{APIServerFlags: map[string][]string{"service-account-key-file": {keyFile}}})
	h.client = kubernetes.NewForConfigOrDie(h.cluster.Config())
	h.cluster.CreateNamespaces("cluster1", "cluster2")
	h.role(agentRole,
		rbacv1.PolicyRule{APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks"},
			Verbs: []string{"get", "list", "watch", "update", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks/status"},
			Verbs: []string{"patch", "update"}})
	for _, name := range []string{"cluster1", "cluster2"} {
		h.account(name, "agent")
		h.bindAgents(name)
	}
	h.bindAll("system:auth-delegator", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "hub"})

	reviews, err := kubeaccess.New(h.cluster.User("hub"), kubeaccess.Options{CacheTTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	o := grpc.ServerOptions{Tokens: reviews, Authorizer: reviews}
	o.CertFile, o.KeyFile = h.ca.Issue(t, "server").Write(t, folder, "server")
	h.caFile = h.ca.Write(t, folder, "ca")
	o.ClientCAFile = h.caFile
	server, err := grpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = listener.Addr().String()
	e2etest.Background(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return h
}

// newSigner returns a key, and writes its public part.
func newSigner(t *testing.T, file string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return key
}

func (h *hub) role(name string, rules ...rbacv1.PolicyRule) {
	h.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := h.client.RbacV1().ClusterRoles().Create(h.t.Context(), role, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// bindAgents gives the agents of a cluster their role.
func (h *hub) bindAgents(cluster string) {
	h.t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agents"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agentRole},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:open-cluster-management:" + cluster},
			{Kind: rbacv1.ServiceAccountKind, Namespace: cluster, Name: "agent"},
		},
	}
	_, err := h.client.RbacV1().RoleBindings(cluster).Create(h.t.Context(), binding, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
}

// bindAll gives a role in all namespaces.
func (h *hub) bindAll(role string, subject rbacv1.Subject) {
	h.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-" + subject.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
	_, err := h.client.RbacV1().ClusterRoleBindings().Create(h.t.Context(), binding, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
}

// applyDocumented creates the objects with a name that the doc of package kubeaccess has.
func (h *hub) applyDocumented(name string) {
	h.t.Helper()
	text, err := os.ReadFile("../../../cloudevents/grpc/kubeaccess/doc.go")
	if err != nil {
		h.t.Fatal(err)
	}
	found := false
	for block := range strings.SplitSeq(string(text), "//\n") {
		if !strings.HasPrefix(block, "//\tapiVersion: ") || !strings.Contains(block, "{name: "+name) {
			continue
		}
		found = true
		apply := exec.CommandContext(h.t.Context(), kube.Program(h.t, "kubectl"), "--kubeconfig", h.cluster.Kubeconfig(),
			"apply", "-f", "-")
		apply.Stdin = strings.NewReader(strings.ReplaceAll(block, "//\t", ""))
		if out, err := apply.CombinedOutput(); err != nil {
			h.t.Fatalf("%v: %s\n%s", err, out, block)
		}
	}
	if !found {
		h.t.Fatalf("the package doc has no objects %s", name)
	}
}

func (h *hub) account(namespace, name string) {
	h.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := h.client.CoreV1().ServiceAccounts(namespace).Create(h.t.Context(), account, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
}

// token returns a new token of a service account.
func (h *hub) token(namespace, name string, audiences ...string) string {
	h.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	got, err := h.client.CoreV1().ServiceAccounts(namespace).CreateToken(h.t.Context(), name, request,
		metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return got.Status.Token
}

// resign returns a token with the claims of another one, except the time of its end.
func (h *hub) resign(token string, end time.Time) string {
	h.t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		h.t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		h.t.Fatal(err)
	}
	claims["exp"], claims["iat"], claims["nbf"] = end.Unix(), end.Unix()-7200, end.Unix()-7200
	if payload, err = json.Marshal(claims); err != nil {
		h.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, h.signer, sum[:])
	if err != nil {
		h.t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}

// certificate returns the options of a client with a certificate.
func (h *hub) certificate(user string, groups ...string) grpc.Options {
	h.t.Helper()
	o := grpc.Options{Address: h.addr, CAFile: h.caFile}
	id := h.ca.IssueFor(h.t, user, groups...)
	o.CertFile, o.KeyFile = id.Write(h.t, h.t.TempDir(), "client")
	return o
}

// withToken returns the options of a client with a token.
func (h *hub) withToken(token string) grpc.Options {
	return grpc.Options{Address: h.addr, CAFile: h.caFile, Token: token}
}

func transport(t *testing.T, o grpc.Options) *grpc.Transport {
	t.Helper()
	tr, err := grpc.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// subscribe returns the error of a connection with filters.
func subscribe(t *testing.T, o grpc.Options, filters ...string) error {
	t.Helper()
	conn, err := connect(t, o, filters...)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func connect(t *testing.T, o grpc.Options, filters ...string) (cloudevents.Conn, error) {
	t.Helper()
	return transport(t, o).Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: filters, Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
}

// publish returns the error of a publication.
func publish(t *testing.T, conn cloudevents.Conn, topic string) error {
	t.Helper()
	result := make(chan error, 1)
	m := cloudevents.Message{Topic: topic, Event: eventFor(topic)}
	if err := conn.Publish(t.Context(), m, func(err error) { result <- err }); err != nil {
		t.Fatal(err)
	}
	return <-result
}

// eventFor is an event with the type and the names of a topic, which the server compares on topics of
// the profile ManifestBundle.
func eventFor(topic string) *ce.Event {
	levels := strings.Split(topic, "/")
	kind := map[string]string{
		"sourceevents": "spec.create_request", "agentevents": "status.update_request", "agentbroadcast": "spec.resync_request",
	}[path.Base(topic)]
	e := ce.New()
	e.SetID("1")
	e.SetSource("test")
	e.SetType("io.open-cluster-management.works.v1alpha1.manifestbundles." + kind)
	switch len(levels) {
	case 3:
		e.SetExtension("clustername", levels[1])
	case 5:
		e.SetSource(levels[1])
		e.SetExtension("originalsource", levels[1])
		e.SetExtension("clustername", levels[3])
	}
	return &e
}
