// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	system    = "work-apiserver" // the namespace, the Service and the ServiceAccount of the server
	startTime = 3 * time.Minute
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// scene is a cluster with the manifests of the example, in which the program of the example serves
// the API of works. The program runs outside of the cluster with the rights of its ServiceAccount.
type scene struct {
	t       testing.TB
	race    bool // the program has the race detector
	cluster *kube.Cluster
	broker  *mosquitto.Broker
	ca      *certtest.Authority
	folder  string // for files of the server
	port    int
	server  *daemon.Daemon
}

// newScene starts the cluster and the server, and registers the API. The flags are added to those of
// the server.
func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	s := unregistered(t, true, nil, flags...)
	s.kubectl("apply", "-f", s.registration())
	s.available()
	return s
}

// unregistered starts a cluster with CRDs, and the server with or without the race detector.
func unregistered(t testing.TB, race bool, crds []string, flags ...string) *scene {
	t.Helper()
	e2etest.Prepare("work-apiserver", race)
	s := &scene{t: t, race: race, ca: certtest.New(t), folder: t.TempDir()}
	s.broker = mosquitto.Start(t, mosquitto.Options{})
	s.cluster = kube.Start(t, kube.Options{CRDs: crds, Aggregates: true})
	s.install()
	s.issue("serving")
	s.start(flags...)
	s.cluster.CreateNamespaces("cluster1", "cluster2")
	return s
}

// install applies the manifests of the example, except the Service: the server of the test runs outside
// of the cluster.
func (s *scene) install() {
	s.t.Helper()
	out, err := s.command(s.cluster.Kubeconfig(), e2etest.Program(s.t, "work-apiserver", s.race), "install", "--apply",
		"--namespace", system, "--image", "registry.example/server:v1", "--", "--broker", s.broker.URL())
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	s.kubectl("delete", "service", "-n", system, system)
}

// in returns the scene for a subtest.
func (s *scene) in(t *testing.T) *scene {
	own := *s
	own.t = t
	return &own
}

// manifest returns the path of a manifest of the example.
func (s *scene) manifest(name string) string {
	s.t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../examples/work-apiserver", name))
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// issue writes a new certificate of the server.
func (s *scene) issue(name string) *certtest.Identity {
	s.t.Helper()
	id := s.ca.Issue(s.t, name, system+"."+system+".svc", "localhost")
	id.Write(s.t, s.folder, "serving")
	return id
}

// start starts the server on a free port, and returns when it is ready.
func (s *scene) start(flags ...string) {
	s.t.Helper()
	program := e2etest.Program(s.t, "work-apiserver", s.race)
	kubeconfig := s.accountKubeconfig()
	for attempt := 1; ; attempt++ {
		if s.port == 0 {
			s.port = int(daemon.FreeAddr(s.t).Port())
		}
		server, err := daemon.Start(program, append([]string{
			"--broker", s.broker.URL(), "--store", filepath.Join(s.folder, "store"), "--kubeconfig", kubeconfig,
			"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(s.port), "--tls-cert-file",
			filepath.Join(s.folder, "serving.crt"), "--tls-private-key-file", filepath.Join(s.folder, "serving.key"),
		}, flags...)...)
		if err != nil {
			s.t.Fatal(err)
		}
		err = server.WaitReady(startTime, func() error {
			_, err := s.direct("/readyz", nil)
			return err
		})
		if err == nil {
			s.server = server
			server.StopAfter(s.t, "work-apiserver")
			return
		}
		server.Stop()
		if attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			s.t.Fatal(err)
		}
		s.port = 0 // another process of the tests has taken it
	}
}

// accountKubeconfig writes a kubeconfig of the ServiceAccount of the server.
func (s *scene) accountKubeconfig() string {
	s.t.Helper()
	config := s.cluster.Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, s.token(system, system)
	return kube.WriteKubeconfig(s.t, config)
}

// token returns a token of a ServiceAccount.
func (s *scene) token(namespace, name string) string {
	s.t.Helper()
	accounts := kubernetes.NewForConfigOrDie(s.cluster.Config()).CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := accounts.Create(s.t.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	token, err := accounts.CreateToken(s.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return token.Status.Token
}

// registration creates the Service, which leads to the process of the test, and returns the file of
// the APIService.
func (s *scene) registration() (file string) {
	s.t.Helper()
	s.cluster.CreateService(system, system, "localhost")
	text, err := os.ReadFile(s.manifest("apiservice.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	manifest := strings.NewReplacer("CA_BUNDLE", base64.StdEncoding.EncodeToString([]byte(s.ca.PEM)),
		"port: 443", fmt.Sprint("port: ", s.port)).Replace(string(text))
	file = filepath.Join(s.folder, "apiservice.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// available waits until the cluster forwards requests to the server.
func (s *scene) available() {
	s.t.Helper()
	s.kubectl("wait", "--for=condition=Available", "--timeout", startTime.String(),
		"apiservice/v1.work.open-cluster-management.io")
	e2etest.Eventually(s.t, "works are served", func() error {
		_, err := s.works("default").List(s.t.Context(), metav1.ListOptions{})
		return err
	})
}

// agent runs the agent of a cluster, and returns the objects that it applies.
func (s *scene) agent(name string) *agenttest.Cluster {
	s.t.Helper()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: s.broker.URL()})
	if err != nil {
		s.t.Fatal(err)
	}
	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: name})
	if err != nil {
		s.t.Fatal(err)
	}
	cluster := agenttest.NewCluster()
	e2etest.Background(s.t, agent.Start)
	e2etest.Background(s.t, func(ctx context.Context) error {
		return agenttest.Run(ctx, cluster, agent.Clientset(), name)
	})
	return cluster
}

// works returns the works of a namespace, through the API server of the cluster.
func (s *scene) works(namespace string) worktyped.ManifestWorkInterface {
	return workclientset.NewForConfigOrDie(s.cluster.Config()).WorkV1().ManifestWorks(namespace)
}

// kubectl runs kubectl with all rights and returns its output.
func (s *scene) kubectl(args ...string) string {
	s.t.Helper()
	out, err := s.command(s.cluster.Kubeconfig(), kube.Program(s.t, "kubectl"), args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// command runs a program with a kubeconfig and returns its output.
func (s *scene) command(kubeconfig, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+s.folder,
		"PATH="+filepath.Dir(kube.Program(s.t, "kubectl"))+":"+os.Getenv("PATH"))
	err := cmd.Run()
	return out.String(), err
}

// direct sends a GET request to the server without the API server. change may be nil.
func (s *scene) direct(path string, change func(*http.Request)) (string, error) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12},
	}}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet,
		"https://"+s.address()+path, nil)
	if err != nil {
		return "", err
	}
	if change != nil {
		change(request)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), err
}
