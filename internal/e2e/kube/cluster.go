// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube runs a real Kubernetes control plane for a test: etcd and
// kube-apiserver through controller-runtime's envtest, and on demand
// kube-controller-manager with the two controllers that make deletion work.
//
//	cluster := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
//	cluster.StartControllerManager()
//	client, err := kubernetes.NewForConfig(cluster.Config())
//
// A test that does not stop or restart the servers uses the cluster that all such tests of
// a package share, see [Shared], with its own namespace.
//
// There are no nodes: pods are accepted and never run.
package kube

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	// startLimit is generous because other packages' tests run at the same time. A start that takes
	// 3 s on an idle machine has taken more than a minute.
	startLimit = 5 * time.Minute
	// logShown is the number of bytes of the API server's log that a failed test prints.
	logShown = 16 << 10
)

// Options configures a cluster. The zero value is an empty cluster.
type Options struct {
	// CRDs are files or folders with CustomResourceDefinitions in YAML. They are established when
	// Start returns.
	CRDs []string
	// APIServerFlags are added to the API server's command line. The names have no leading dashes.
	APIServerFlags map[string][]string
	// Aggregates adds the flags with which the API server forwards requests to other API servers.
	Aggregates bool
}

// Cluster is a running control plane for one test. Its methods must be called from the test's own
// goroutine, except Config, which is safe for concurrent use.
type Cluster struct {
	*plane
	t      testing.TB
	shared bool

	kubeconfig string // the file
}

// plane holds the servers.
type plane struct {
	assets string // the folder of the binaries
	folder string // the folder of certificates
	env    *envtest.Environment
	config *rest.Config
	log    daemon.Log

	lock    sync.Mutex // held while a user or a server is added
	manager *daemon.Daemon
}

// Start runs a cluster until the end of the test. It takes about three seconds, see [Shared]. The
// test is skipped if the binaries are missing. If the test fails, the end of the API server's log
// is part of its output.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	if opts.Aggregates {
		opts.APIServerFlags = aggregate(t, opts.APIServerFlags)
	}
	c := &Cluster{plane: newPlane(assets(t, "etcd", "kube-apiserver"), t.TempDir(), opts), t: t}
	t.Cleanup(c.cleanup)
	if err := c.start(); err != nil {
		t.Fatalf("kube: %v", err)
	}
	return c
}

// discardLog sets the logger of envtest, which otherwise prints a stack after 30 seconds.
var discardLog = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) })

// newPlane returns a plane that is not started. The folder is for certificates. With our own
// folder, envtest keeps the certificates and the users after a restart.
func newPlane(assets, folder string, opts Options) *plane {
	discardLog()
	p := &plane{assets: assets, folder: folder}
	p.env = &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        opts.CRDs,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startLimit,
		ControlPlaneStopTimeout:  startLimit,
		UseExistingCluster:       new(bool), // whatever the environment sets
	}
	server := p.env.ControlPlane.GetAPIServer()
	server.CertDir = folder
	server.Path = filepath.Join(assets, "kube-apiserver")
	server.Out, server.Err = &p.log, &p.log
	for name, values := range opts.APIServerFlags {
		server.Configure().Append(name, values...)
	}
	return p
}

func (p *plane) start() (err error) {
	p.config, err = p.env.Start()
	return err
}

// Config returns a copy of the configuration of a client with all rights. Its rate limit (1,000
// requests per second) is higher than any test needs.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// User returns the configuration of a client with the rights that RBAC gives to name and groups. At
// first it has no rights.
func (c *Cluster) User(name string, groups ...string) *rest.Config {
	c.t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, c.config)
	if err != nil {
		c.t.Fatalf("kube: user %s: %v", name, err)
	}
	return user.Config()
}

// Kubeconfig returns the path of a kubeconfig file with the rights of Config.
func (c *Cluster) Kubeconfig() string {
	c.t.Helper()
	if c.kubeconfig == "" {
		file := filepath.Join(c.t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, c.env.KubeConfig, 0o600); err != nil {
			c.t.Fatalf("kube: %v", err)
		}
		c.kubeconfig = file
	}
	return c.kubeconfig
}

// WriteKubeconfig writes a kubeconfig file for a client with a certificate or a token.
func WriteKubeconfig(t testing.TB, c *rest.Config) (file string) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		Token: c.BearerToken, ClientCertificateData: c.CertData, ClientKeyData: c.KeyData,
	}
	config.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user"}
	config.CurrentContext = "context"
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatalf("kube: %v", err)
	}
	return file
}

// CreateNamespaces creates namespaces.
func (c *Cluster) CreateNamespaces(names ...string) {
	c.t.Helper()
	namespaces := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Namespaces()
	for _, name := range names {
		if _, err := namespaces.Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			c.t.Fatalf("kube: %v", err)
		}
	}
}

// InstallCRDs installs CustomResourceDefinitions from files or folders and returns
// when they are established.
func (c *Cluster) InstallCRDs(paths ...string) {
	c.t.Helper()
	_, err := envtest.InstallCRDs(c.config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
	if err != nil {
		c.t.Fatalf("kube: install CRDs: %v", err)
	}
}

// StopAPIServer ends the API server gracefully. etcd and its data stay.
func (c *Cluster) StopAPIServer() {
	c.t.Helper()
	c.mustOwn()
	if err := c.env.ControlPlane.APIServer.Stop(); err != nil {
		c.t.Fatalf("kube: stop the API server: %v", err)
	}
}

// KillAPIServer ends the API server immediately, with all its connections. StopAPIServer would wait
// for open watches.
func (c *Cluster) KillAPIServer() {
	c.t.Helper()
	c.mustOwn()
	for _, pid := range c.apiServers() {
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill() // it may have ended
		}
	}
	c.StopAPIServer() // returns when it has ended
}

// FreezeAPIServer stops the process of the API server, which keeps its connections. thaw continues it.
func (c *Cluster) FreezeAPIServer() (thaw func()) {
	c.t.Helper()
	c.mustOwn()
	pids := c.apiServers()
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil {
				c.t.Errorf("kube: %s of the API server: %v", s, err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	thaw = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	c.t.Cleanup(thaw)
	return thaw
}

// apiServers returns the process of the API server, which is the one with certificates in the
// cluster's folder.
func (c *Cluster) apiServers() (pids []int) {
	c.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		daemon.Missing(c.t, "kube: there is no /proc to find the API server in")
	}
	for _, line := range lines {
		args, err := os.ReadFile(line)
		if err != nil || !bytes.HasPrefix(args, []byte(c.env.ControlPlane.APIServer.Path+"\x00")) ||
			!bytes.Contains(args, []byte("="+c.env.ControlPlane.APIServer.CertDir+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line))); err == nil {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 1 {
		c.t.Fatalf("kube: there are %d processes of the API server", len(pids))
	}
	return pids
}

// StartAPIServer starts the API server again after StopAPIServer, with the same address and the
// same users.
func (c *Cluster) StartAPIServer() {
	c.t.Helper()
	c.mustOwn()
	if err := c.env.ControlPlane.APIServer.Start(); err != nil {
		c.t.Fatalf("kube: start the API server: %v\n%s", err, c.log.Last(logShown))
	}
}

// RestartAPIServer calls StopAPIServer and StartAPIServer.
func (c *Cluster) RestartAPIServer() {
	c.t.Helper()
	c.StopAPIServer()
	c.StartAPIServer()
}

func (c *Cluster) cleanup() {
	c.stopManager()
	if err := c.env.Stop(); err != nil {
		c.t.Errorf("kube: stop: %v", err)
	}
	c.showLogs()
}

// showLogs logs the end of the servers' logs if the test failed.
func (c *Cluster) showLogs() {
	if !c.t.Failed() {
		return
	}
	c.t.Logf("end of the log of kube-apiserver:\n%s", c.log.Last(logShown))
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.manager != nil {
		c.t.Logf("end of the log of kube-controller-manager:\n%s", c.manager.Log())
	}
}
