// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.uber.org/zap"

	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/examples/rsync/internal/flags"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
)

// openStore opens the store of the options, and returns the function that closes it.
func openStore(ctx context.Context, o flags.Options) (store.Store, func(), error) {
	if len(o.Etcd) == 0 {
		s, err := filestore.Open(ctx, o.Store)
		if err != nil {
			return nil, nil, fmt.Errorf("--store: %w", err)
		}
		return s, func() { _ = s.Close() }, nil
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: o.Etcd, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, fmt.Errorf("--etcd: %w", err)
	}
	s, err := etcdstore.New(etcd, etcdstore.Options{})
	if err == nil {
		_, err = s.Get(ctx, "/rsync-example-reachable/")
	}
	if err != nil {
		_ = etcd.Close()
		return nil, nil, fmt.Errorf("--etcd %s: %w", strings.Join(o.Etcd, ","), err)
	}
	return s, func() { _ = etcd.Close() }, nil
}
