// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

// A hub makes its CA, and a token for cluster1. An agent joins and later renews its certificate,
// until the hub revokes it.
func ExampleNewServer() {
	dir, err := os.MkdirTemp("", "join")
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := func(name string) string { return filepath.Join(dir, name) }

	ca, err := join.CreateAuthority("hub")
	if err != nil {
		log.Panic(err)
	}
	caCert, caKey, err1 := ca.PEM()
	cert, key, err2 := ca.Server("localhost", "127.0.0.1")
	if err := errors.Join(err1, err2,
		os.WriteFile(file("ca.crt"), caCert, 0o600), os.WriteFile(file("ca.key"), caKey, 0o600),
		os.WriteFile(file("hub.crt"), cert, 0o600), os.WriteFile(file("hub.key"), key, 0o600)); err != nil {
		log.Panic(err)
	}

	server, err := join.NewServer(join.ServerOptions{
		Store:    &join.MemoryStore{},
		CertFile: file("hub.crt"), KeyFile: file("hub.key"), CACertFile: file("ca.crt"), CAKeyFile: file("ca.key"),
	})
	if err != nil {
		log.Panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Start(ctx) })
	running.Go(func() { _ = server.Serve(ctx, listener) })
	defer running.Wait()
	defer stop()
	<-server.Ready()

	token, err := server.CreateToken(ctx, join.TokenOptions{Cluster: "cluster1"})
	if err != nil {
		log.Panic(err)
	}
	joined, err := join.Join(ctx, join.Options{
		URL: "https://" + listener.Addr().String(), Token: token, Dir: file("agent"),
	})
	if err != nil {
		log.Panic(err)
	}
	renewer, err := join.NewRenewer(join.RenewerOptions{Dir: file("agent")})
	if err != nil {
		log.Panic(err)
	}
	running.Go(func() { _ = renewer.Start(ctx) })
	fmt.Println("certificate for:", joined.Subject)
	fmt.Println("check:", server.Check(joined))

	if err := server.Revoke(ctx, "cluster1"); err != nil {
		log.Panic(err)
	}
	fmt.Println("check:", server.Check(joined))
	// Output:
	// certificate for: CN=cluster1,OU=join-1
	// check: <nil>
	// check: the certificate of the cluster was revoked: join again with a new token
}

// A renewer needs the files of a join.
func ExampleNewRenewer() {
	dir, err := os.MkdirTemp("", "join")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_, err = join.NewRenewer(join.RenewerOptions{Dir: dir})
	fmt.Println("joined:", err == nil)
	// Output:
	// joined: false
}

// A CA signs the certificates of the hub and of its broker.
func ExampleCreateAuthority() {
	ca, err := join.CreateAuthority("hub")
	if err != nil {
		log.Fatal(err)
	}
	cert, key, err := ca.Server("broker.example.com", "10.0.0.7")
	if err != nil {
		log.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pair.Leaf.DNSNames, pair.Leaf.IPAddresses)
	// Output:
	// [broker.example.com] [10.0.0.7]
}

func ExampleLoadAuthority() {
	_, err := join.LoadAuthority("missing.crt", "missing.key")
	fmt.Println("loaded:", err == nil)
	// Output:
	// loaded: false
}

// A printed token does not have its secret.
func ExampleParseToken() {
	token, err := join.ParseToken("k2bads7l7s." + strings.Repeat("s", 26) + "." + strings.Repeat("0", 64))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
	// Output:
	// k2bads7l7s.***
}

// Certificate and key are one file, so a renewal replaces both together.
func ExampleFilesIn() {
	files := join.FilesIn("agent")
	fmt.Println(files.CA, files.Cert, files.Key)
	// Output:
	// agent/ca.crt agent/client.pem agent/client.pem
}
