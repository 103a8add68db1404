// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// TestManyFolders: the connector reads packs with deltas, and more folders of earlier commits than
// it keeps.
func TestManyFolders(t *testing.T) {
	const clusters, objects = 120, 15
	s := ways["http"](t, gitserver.Options{Config: map[string]string{"fastimport.unpackLimit": "0"}})
	connectors := newConnectors(t, s.at, git.Options{})
	id := func(i int) appcontext.ClusterID {
		return appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", i)}
	}
	for round := range 4 {
		files := map[string]string{}
		for i := range clusters {
			for j := range objects {
				files[s.at.File(id(i), configMap(fmt.Sprint("object-", j)))] = fmt.Sprint(j, round)
			}
			files[s.at.File(id(i), configMap(fmt.Sprint("own-", i, "-", round)))] = "" // so folders are similar, but never equal
		}
		s.server.Commit("many", files)
		s.server.Git("repack", "-adfq", "--window=50", "--depth=50")
		if out := s.server.Git("verify-pack", "-s", pack(t, s.server)); !strings.Contains(out, "chain length") {
			t.Fatalf("the pack has no deltas: %s", out)
		}
		c := openCluster(t, connectors, id(round*30))
		want := []bool{true, true, false}
		states, err := c.Get(t.Context(), batch(fmt.Sprintf("object-7 own-%d-%d nothing", round*30, round)))
		for i := range states {
			if err != nil || states[i].Exists != want[i] {
				t.Errorf("round %d: %+v, %v, want exists = %v", round, states[i], err, want[i])
			}
		}
		apply(t, c, fmt.Sprintf("mine=%d", round))
	}
	s.server.Check()
	if n := len(s.server.Subjects()); n != 9 {
		t.Errorf("%d commits, want 9", n)
	}
}

// pack returns the index of the only pack of a repository.
func pack(t *testing.T, s *gitserver.Server) string {
	t.Helper()
	entries, err := os.ReadDir(s.Path() + "/objects/pack")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".idx") {
			return s.Path() + "/objects/pack/" + e.Name()
		}
	}
	t.Fatal("there is no pack")
	return ""
}

// TestRivalPushesFirst: a rival pushes before every push of the connector.
func TestRivalPushesFirst(t *testing.T) {
	var server *gitserver.Server
	var pushes atomic.Int32
	s := ways["http"](t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "git-receive-pack") {
				n := pushes.Add(1)
				server.Commit("rival", map[string]string{"rival": fmt.Sprint(n)})
			}
			next.ServeHTTP(w, r)
		})
	}})
	server = s.server
	c := open(t, s.at, git.Options{PushAttempts: 3})
	err := c.Apply(t.Context(), batch("a=1"))
	class(t, err, connector.ErrRetryable)
	if err == nil || !strings.Contains(err.Error(), "other writers push to the branch") || pushes.Load() != 3 {
		t.Errorf("%v after %d pushes", err, pushes.Load())
	}
	if n := len(server.Subjects()); n != 4 {
		t.Errorf("%d commits, want those of the rival only", n)
	}
}

// TestPushIsBounded: a push has at most 100 batches, and no batch of a caller that has cancelled.
func TestPushIsBounded(t *testing.T) {
	const clusters = 150
	var pushes, waiting atomic.Int32
	held := make(chan struct{})
	s := ways["http"](t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "git-receive-pack") && pushes.Add(1) == 1 {
				<-held
			}
			next.ServeHTTP(w, r)
		})
	}})
	connectors := newConnectors(t, s.at, git.Options{})
	var running sync.WaitGroup
	first, impatient := openCluster(t, connectors, edge1), openCluster(t, connectors, edge1)
	running.Go(func() { persist(t, first, "a=1") })
	await(t, func() bool { return pushes.Load() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() {
		if err := impatient.Apply(watched{ctx, &waiting}, batch("b=1")); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was cancelled: %v", err)
		}
	})
	for i := range clusters {
		c := openCluster(t, connectors, appcontext.ClusterID{Provider: "core", Name: fmt.Sprint("c", i)})
		running.Go(func() {
			if err := c.Apply(watched{t.Context(), &waiting}, batch("a=1")); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, func() bool { return waiting.Load() == clusters+1 })
	cancel()
	close(held)
	running.Wait()
	if n := pushes.Load(); n != 3 {
		t.Errorf("%d pushes, want 3", n)
	}
	if n := len(s.server.Subjects()); n != clusters+2 {
		t.Errorf("%d commits, want %d", n, clusters+2)
	}
	if _, ok := s.server.Files()[s.at.File(edge1, configMap("b"))]; ok {
		t.Error("what nobody waited for any more was committed")
	}
	s.server.Check()
}

// TestProbesAreLimited: a server receives at most four probes a second, however many clusters wait
// for it.
func TestProbesAreLimited(t *testing.T) {
	var requests atomic.Int32
	s := gitserver.New(t, gitserver.Options{Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
	}})
	clock := clocktesting.NewFakeClock(time.Now())
	connectors := newConnectors(t, git.Repository{URL: s.URL()}, git.Options{Clock: clock})
	for i := range 30 {
		c := openCluster(t, connectors, appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint(i)})
		class(t, c.Probe(t.Context()), connector.ErrUnreachable)
		if i%10 == 9 {
			clock.Step(250 * time.Millisecond)
		}
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// TestSHA256Repository: a repository with SHA-256 is refused with a clear error.
func TestSHA256Repository(t *testing.T) {
	folder := gitserver.New(t, gitserver.Options{Empty: true}).Path() + ".256"
	if out, err := exec.Command("git", "init", "-q", "--bare", "--object-format=sha256",
		folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in := "commit refs/heads/main\ncommitter X <x> 1700000000 +0000\ndata 1\nx\n"
	cmd := exec.Command("git", "-C", folder, "fast-import", "--quiet")
	cmd.Stdin = strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := open(t, git.Repository{URL: folder, CreateBranch: true}, git.Options{})
	refusedBy(t, c, connector.ErrTerminal, "must be SHA-1")
}

// An ed25519 key for this test only. Its passphrase is s3cr3t, with one round of key derivation:
// sixteen rounds take a minute with the race detector.
const (
	encryptedKey = `-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABBcAkU74Z
t/6nsVo8RnN7ZOAAAAAQAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIHgs8DjS3Dcm6arc
fRfAthVEYyqM0r7KMXcslgBR2sFpAAAAkNXqv9B20ufa4jlZ0B1yGLA74xEmH0zubXAX76
8MEiDg4WqYl5N/XTqRBh3zWai3Th6E6SMKSRTnIuil5HdEkO7Rih8w95m9IedB2f4puzVH
5dbSKi6JbzZil6oV+6zqo1E1Ufg65Z1XVXPg185Faf+dd3GIl5VFRLXef+LgQ2RZQi5MUW
rshsnZF5pkrdGaIQ==
-----END OPENSSH PRIVATE KEY-----
`
	encryptedKeyPublic = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHgs8DjS3Dcm6arcfRfAthVEYyqM0r7KMXcslgBR2sFp test"
)

// TestEncryptedKey: an encrypted key works with the right passphrase, and is refused with a wrong
// passphrase.
func TestEncryptedKey(t *testing.T) {
	way := gitserver.New(t, gitserver.Options{}).SSH(encryptedKeyPublic)
	at := git.Repository{URL: way.URL, Auth: git.Auth{SSHKeyFile: write(t, encryptedKey), SSHPassphrase: "s3cr3t-not",
		KnownHostsFile: way.KnownHostsFile}}
	refusedBy(t, open(t, at, git.Options{}), connector.ErrRetryable, "it is not a private key that SSHPassphrase decrypts")
	at.Auth.SSHPassphrase = "s3cr3t"
	apply(t, open(t, at, git.Options{}), "a=1")
}
