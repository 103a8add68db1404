// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/apiserver"
)

// Serve runs a source and its server until ctx ends. The Service of the server has an APIService, as
// in examples/work-apiserver/install.
func Serve(ctx context.Context, transport cloudevents.Transport, store work.Store, args []string) error {
	options, flags := apiserver.NewOptions(), pflag.NewFlagSet("work-apiserver", pflag.ContinueOnError)
	options.AddFlags(flags)
	if err := errors.Join(flags.Parse(args), options.Validate()); err != nil {
		return err
	}
	source, err := work.NewSource(transport, work.SourceOptions{
		SourceID: "hub", Store: store, MetricsRegisterer: legacyregistry.Registerer(), // for /metrics
	})
	if err != nil {
		return err
	}
	server, err := apiserver.New(source, options)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	sourceCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return source.Start(sourceCtx) })
	group.Go(func() error {
		defer stop() // the source ends after the server
		return server.Start(ctx)
	})
	return group.Wait()
}

// A program serves the works of a source with the flags of an aggregated API server.
func Example() {
	_ = Serve // for example with --kubeconfig, --tls-cert-file and --tls-private-key-file
}

// Without a cluster, a server has no authentication: use it only in tests.
func ExampleNew() {
	options := apiserver.NewOptions()
	r := options.Recommended
	r.CoreAPI, r.Authentication, r.Authorization, r.Admission, r.Features = nil, nil, nil, nil, nil
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	r.SecureServing.Listener = listener

	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		log.Fatal(err)
	}
	server, err := apiserver.New(source, options)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Start(ctx) })
	group.Go(func() error { return server.Start(ctx) })

	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is generated
	}}
	response, err := client.Get("https://" + listener.Addr().String() +
		"/apis/work.open-cluster-management.io/v1/manifestworks?limit=1")
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	fmt.Println(response.Status, err, len(body) > 0)
	cancel()
	fmt.Println(group.Wait())
	// Output:
	// 200 OK <nil> true
	// <nil>
}

func ExampleNewOptions() {
	options := apiserver.NewOptions()
	options.ReadOnly = true
	options.Recommended.SecureServing.BindPort = 6443
	fmt.Println(options.Validate())
	// Output: <nil>
}
