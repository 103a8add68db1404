// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// database returns the store of a new database, with the password in the environment.
func database(t *testing.T) string {
	t.Helper()
	server := postgres.Start(t, postgres.Options{})
	conn, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	conn.User = url.User(conn.User.Username())
	t.Setenv("PGPASSWORD", server.Password())
	return conn.String()
}

// eventually waits until check returns true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestFollowerServes checks that a follower is ready, forwards the page, its events and the API, and
// takes over with all documents when the leader ends.
func TestFollowerServes(t *testing.T) {
	one := newSite(t, "c1")
	one.options.Store = database(t)
	two := &site{t: t, bus: one.bus, options: one.options, clusters: one.clusters}
	one.start()
	eventually(t, "the first replica leads",
		func() bool { return strings.Contains(one.said.String(), "Became the leader") })
	two.start()
	eventually(t, "the second replica follows", func() bool {
		code, _ := two.call("GET", "/readyz", "")
		return code == http.StatusOK
	})
	for _, name := range []string{"c1", "offsite"} {
		eventually(t, "the leader has loaded its documents and accepts "+name, func() bool {
			code, _ := two.call("PUT", "/api/v1/clusters/"+name,
				"apiVersion: hub.spokewire.io/v1alpha1\nkind: Cluster\nmetadata: {name: "+name+"}\n")
			return code < 300
		})
	}
	if text := two.must("GET", "/clusters", ""); !strings.Contains(text, "offsite") {
		t.Errorf("the page of the follower has no cluster: %.2000s", text)
	}
	one.stop()
	eventually(t, "the second replica accepts changes", func() bool {
		code, _ := two.call("DELETE", "/api/v1/clusters/offsite", "")
		return code == http.StatusOK
	})
	if text := two.must("GET", "/api/v1/clusters", ""); !strings.Contains(text, `"c1"`) ||
		strings.Contains(text, "offsite") {
		t.Errorf("the second replica has %s", text)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestReplicaWithoutDatabase checks that a replica waits for its database, and logs the server and the
// flag. It does not wait if the database refuses its password.
func TestReplicaWithoutDatabase(t *testing.T) {
	s := newSite(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))
	addr := listener.Addr().String()
	s.options.Store = "postgres://hub@" + addr + "/hub"
	s.said = &lines{}
	stop := background.Run(t, func(ctx context.Context) error {
		return start(s.said.log(ctx), s.options, s.transport)
	})
	eventually(t, "the replica waits for "+addr, func() bool {
		log := s.said.String()
		return strings.Contains(log, `msg="Failed to start, retrying" err="--store: `) && strings.Contains(log, addr)
	})
	stop()

	s.options.Store = database(t)
	t.Setenv("PGPASSWORD", "wrong")
	err = start(t.Context(), s.options, s.transport)
	if err == nil || !strings.HasPrefix(err.Error(), "--store: ") || !strings.Contains(err.Error(), "password") {
		t.Errorf("%v", err)
	}
}
