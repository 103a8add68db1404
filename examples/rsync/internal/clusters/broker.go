// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// Defaults of settings in the URL.
const (
	defaultSource = "rsync"
	defaultWorks  = "rsync-works.db"
)

// broker has the clusters with agents on a broker.
type broker struct {
	connector.Connectors
	source *work.Source
	store  *boltstore.Store
}

// openBroker creates a source with a file for the works: an engine must find the works that it
// applied before a restart.
func openBroker(value string) (connector.Connectors, error) {
	at, err := url.Parse(value)
	if err != nil || at.Host == "" {
		return nil, errors.New("must be a URL such as mqtt://host:1883") // the value may have a password
	}
	sourceID, file, query := defaultSource, defaultWorks, at.RawQuery
	at.RawQuery = ""
	options := mqtt.Options{BrokerURL: at.String()}
	err = readSettings(query, map[string]*string{
		"source": &sourceID, "works": &file, "user": &options.Username, "password-file": &options.PasswordFile,
		"ca-file": &options.CAFile, "cert-file": &options.CertFile, "key-file": &options.KeyFile,
	})
	if err != nil {
		return nil, err
	}
	transport, err := mqtt.New(options)
	if err != nil {
		return nil, err
	}
	store, err := boltstore.Open(file, boltstore.Options{})
	if err != nil {
		return nil, fmt.Errorf("works: %w", err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: sourceID, Store: store})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	connectors, err := manifestwork.New(source.Clientset().WorkV1(), manifestwork.Options{
		Reachable: func(context.Context, appcontext.ClusterID) error { return source.Healthy() },
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &broker{connectors, source, store}, nil
}

// Start runs the source until ctx ends.
func (b *broker) Start(ctx context.Context) error {
	return errors.Join(b.source.Start(ctx), b.store.Close())
}
