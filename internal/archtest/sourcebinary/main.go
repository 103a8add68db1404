// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command sourcebinary is a minimal hub controller: a source over MQTT and an informer of its
// works. Package archtest counts the packages that it links.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(args) != 1 {
		return fmt.Errorf("usage: sourcebinary BROKER_URL")
	}
	transport, err := mqtt.New(mqtt.Options{BrokerURL: args[0]})
	if err != nil {
		return err
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "sourcebinary"})
	if err != nil {
		return err
	}
	informers := workinformers.NewSharedInformerFactory(source.Clientset(), 0)
	informers.Work().V1().ManifestWorks().Informer()
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	return source.Start(ctx)
}
