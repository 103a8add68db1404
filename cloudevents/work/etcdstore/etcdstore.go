// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdstore implements [work.SharedStore] in etcd 3, for replicas of a source with up to
// some 100,000 works.
//
//	store, err := etcdstore.Open(ctx, etcdstore.Options{
//		Endpoints: []string{"https://etcd-0:2379", "https://etcd-1:2379", "https://etcd-2:2379"},
//		Prefix:    "/hub/works/", // each source needs its own
//		TLS:       tlsConfig, Username: "hub", Password: password,
//	})
//	defer store.Close()
//	source, err := work.NewSource(transport, work.SourceOptions{
//		SourceID: "hub", SharedGroup: "hubs", Store: store,
//	})
//
// # Batches
//
// A batch that fits into one request is one transaction: by default up to 1 MiB and 3,500 records
// of at most 128 KiB. It is durable when Apply returns: etcd has written it to the disks of a
// majority of its members.
//
// A larger batch has several transactions. The first ones stage its parts, which no reader looks
// at. The next transaction checks the condition of ApplyIf and commits the whole batch with one
// record. Then the changes are copied to their records. If this process ends before, other writers
// complete the copy. So readers and followers see each batch entirely or not at all, and a former
// leader that was suspended within any step cannot commit. Staged parts of a process that ended are
// removed after twice [Options].CleanupInterval.
//
// After an error, the batch is committed before the next batch of this Store, or never.
//
// # Following
//
// [Store.Follow] reads the content at one revision, or only some records at the revision of its
// position. Then it watches from there. It resumes after broken connections and restarts of etcd
// that are shorter than [Options].Timeout. It returns [work.ErrBehind] when etcd has compacted the
// revision from which it should continue, and when etcd lost changes because a backup was restored.
// A source then reads the whole content again.
//
// # Limits
//
// A value may have any size. Values of more than 128 KiB are split. Requests stay within
// [Options].MaxRequestBytes and MaxTxnOps. Their defaults are below those of etcd's flags
// --max-request-bytes and --max-txn-ops. Load, and Follow with an empty position, keep the whole
// content in memory while they read it: about 150 MB for 100,000 works of 1.5 KB. Such a store also
// needs 150 MB of etcd's quota, and another 150 MB for each change of all works between two
// compactions.
//
// Run each member of etcd with auto-compaction and a quota. Otherwise etcd keeps each old value,
// reaches its default quota of 2 GiB, raises the alarm NOSPACE and refuses all writes until an
// operator compacts, defragments and disarms the alarm:
//
//	etcd --auto-compaction-mode=periodic --auto-compaction-retention=1h --quota-backend-bytes=8589934592
//
// A retention of 15 min or more, and more than etcd's --watch-progress-notify-interval, lets a
// follower resume after most failures of the network. Do not use the etcd of a Kubernetes API
// server: its load and its backups are not yours.
//
// # Access
//
// With authentication, the user needs read and write access to the prefix and nothing more:
//
//	etcdctl role add works
//	etcdctl role grant-permission works readwrite --prefix=true /hub/works/
//	etcdctl user add hub
//	etcdctl user grant-role hub works
//
// Works may contain secrets. Encrypt connections with TLS, and the disks and backups of etcd.
//
// # Several sources, backups
//
// Several sources use one etcd with different prefixes. A prefix must not be within another one.
// [work.NewSource] returns an error for the prefix of another source. To move a source to another
// etcd, or to restore a backup, stop all of its replicas, use "etcdctl snapshot save" and "etcdutl
// snapshot restore --bump-revision 1000000000 --mark-compacted", and start them again. STORES.md of
// package work describes what a source does after that.
package etcdstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// The defaults of [Options].
const (
	DefaultPrefix          = "/spokewire/works/"
	DefaultTimeout         = 5 * time.Second
	DefaultCleanupInterval = time.Minute
	DefaultMaxRequestBytes = 1 << 20
	DefaultMaxTxnOps       = 120
)

// The least limits with which a batch can be split.
const (
	leastRequestBytes = 512 << 10
	leastTxnOps       = 8
)

// Options configures a [Store]. Endpoints or Client is required.
type Options struct {
	// Endpoints are the URLs of the members of etcd. With "https" or TLS, connections are encrypted.
	Endpoints []string
	// Client is a ready client instead of Endpoints, TLS, Username and Password. Close does not
	// close it. It should have DialKeepAliveTime: otherwise a broken network is noticed late.
	Client *clientv3.Client
	// Prefix is the prefix of all keys, for one source. Defaults to "/spokewire/works/". A slash is
	// added at the end if it is missing.
	Prefix string
	// TLS is the TLS configuration. Versions below TLS 1.2 are raised to it. To read certificates
	// again for each handshake, set its functions, or use transport.TLSInfo of etcd's package
	// client/pkg/v3/transport.
	TLS *tls.Config
	// Username and Password authenticate at etcd. Leave them empty if etcd has no authentication, or
	// uses the name in the client's certificate.
	Username, Password string
	// Timeout limits each request, in addition to the context of the call. Defaults to 5 s.
	Timeout time.Duration
	// CleanupInterval is the time between two searches for the rest of interrupted batches. A
	// staged part that is unchanged in two searches is removed: its writer cannot commit any more.
	// Defaults to 1 min; at least Timeout.
	CleanupInterval time.Duration
	// MaxRequestBytes and MaxTxnOps limit transactions. Set MaxRequestBytes at least 400 KiB below
	// the limit of the server, for conditions and encoding, and MaxTxnOps at most to its limit. They
	// default to 1 MiB and 120, and must be at least 512 KiB and 8.
	MaxRequestBytes, MaxTxnOps int
}

// withDefaults returns the options with defaults, or an error for an invalid field.
func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	if o.Prefix[len(o.Prefix)-1] != '/' {
		o.Prefix += "/"
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.CleanupInterval = cmp.Or(o.CleanupInterval, max(DefaultCleanupInterval, o.Timeout))
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.MaxTxnOps = cmp.Or(o.MaxTxnOps, DefaultMaxTxnOps)
	for i, endpoint := range o.Endpoints { // the client's error would have all of it
		if _, err := url.Parse("etcd:///" + endpoint); err != nil {
			return o, fmt.Errorf("invalid Options.Endpoints[%d]: it is not a URL", i)
		}
	}
	switch {
	case o.Client == nil && len(o.Endpoints) == 0:
		return o, errors.New("invalid Options.Endpoints: Endpoints or Client is required")
	case o.Client != nil && (len(o.Endpoints) > 0 || o.TLS != nil || o.Username != "" || o.Password != ""):
		return o, errors.New("invalid Options.Client: it excludes Endpoints, TLS, Username and Password")
	case o.Username == "" && o.Password != "":
		return o, errors.New("invalid Options.Password: needs a Username")
	case o.Timeout < 0:
		return o, fmt.Errorf("invalid Options.Timeout: %s: must be positive", o.Timeout)
	case o.CleanupInterval < o.Timeout:
		return o, fmt.Errorf("invalid Options.CleanupInterval: %s: must be at least Timeout, which is %s",
			o.CleanupInterval, o.Timeout)
	case o.MaxRequestBytes < leastRequestBytes:
		return o, fmt.Errorf("invalid Options.MaxRequestBytes: %d: must be at least %d", o.MaxRequestBytes,
			leastRequestBytes)
	case o.MaxTxnOps < leastTxnOps:
		return o, fmt.Errorf("invalid Options.MaxTxnOps: %d: must be at least %d", o.MaxTxnOps, leastTxnOps)
	}
	return o, nil
}

// Store is a [work.SharedStore] in etcd. Its methods may be called from any goroutine.
type Store struct {
	options Options
	client  *clientv3.Client
	keys    keys
	logger  klog.Logger

	life   context.Context // ended by Close
	end    context.CancelFunc
	closed sync.Once
	tasks  sync.WaitGroup

	id      string        // of this Store among those that write
	fencing chan struct{} // has a token while fence is set

	mu     sync.Mutex
	chunks map[string]struct{} // keys of records that may have chunks
	fence  int64               // the revision of the key under writer; 0 if it must be set
}

var _ work.SharedStore = &Store{}

// Open connects to etcd, checks the access rights of the user, and creates the store if the prefix
// is empty. Errors are [ErrUnreachable], [ErrForeign], and errors of etcd: with errors.Is,
// rpctypes.ErrAuthFailed for a wrong user name or password, ErrPermissionDenied, and ErrNoSpace.
// ctx limits only Open; the Store keeps its logger.
func Open(ctx context.Context, options Options) (*Store, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("etcdstore.Open: %w", err)
	}
	s := &Store{
		options: o, client: o.Client, keys: keys(o.Prefix), logger: klog.FromContext(ctx),
		id: rand.Text(), fencing: make(chan struct{}, 1), chunks: map[string]struct{}{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.connect(ctx); err != nil {
		err = s.withReason(ctx, err)
		_ = s.Close() // err is the reason
		return nil, fmt.Errorf("open the store in etcd: %w", err)
	}
	s.tasks.Go(s.cleanUp)
	return s, nil
}

func (s *Store) connect(ctx context.Context) error {
	if s.client == nil {
		var err error
		if s.client, err = dial(ctx, s.options); err != nil {
			return s.failure(ctx, "connect", err)
		}
	}
	return s.initialize(ctx)
}

// dial returns a client. With a user name it waits until etcd has accepted the password.
func dial(ctx context.Context, o Options) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: o.Endpoints, Username: o.Username, Password: o.Password,
		DialTimeout: o.Timeout, DialKeepAliveTime: o.Timeout, DialKeepAliveTimeout: o.Timeout,
		MaxCallSendMsgSize: o.MaxRequestBytes + 1<<20,
		Logger:             zap.NewNop(), // errors are returned
	}
	if o.TLS != nil {
		config.TLS = tlsConfig(o.TLS)
	}
	type result struct {
		client *clientv3.Client
		err    error
	}
	dialed := make(chan result, 1)
	go func() {
		client, err := clientv3.New(config)
		dialed <- result{client, err}
	}()
	select {
	case r := <-dialed:
		return r.client, r.err
	case <-ctx.Done():
		go func() {
			if r := <-dialed; r.err == nil {
				_ = r.client.Close() // it was not used
			}
		}()
		return nil, ctx.Err()
	}
}

// initialize checks the format of the store, and creates it if the prefix is empty. The first
// transaction changes nothing: its condition is never true. But etcd checks the right to do it.
func (s *Store) initialize(ctx context.Context) error {
	format := s.keys.format()
	response, err := s.commit(ctx, transaction{
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(format), "<", 0)},
		ops:        []clientv3.Op{clientv3.OpDelete(s.keys.stage("-"), clientv3.WithRange(s.keys.stageEnd("-")))},
		otherwise: []clientv3.Op{
			clientv3.OpGet(format),
			clientv3.OpGet(string(s.keys), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly()),
		},
	})
	if err != nil {
		return s.failure(ctx, "read the format", err)
	}
	if found := response.Responses[0].GetResponseRange().GetKvs(); len(found) > 0 {
		return s.checkFormat(found[0].Value)
	}
	if found := response.Responses[1].GetResponseRange().GetKvs(); len(found) > 0 {
		return fmt.Errorf("%w: the prefix %q has the key %q", ErrForeign, s.keys, found[0].Key)
	}
	response, err = s.commit(ctx, transaction{
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(format), "=", 0)},
		ops:        []clientv3.Op{clientv3.OpPut(format, formatValue)},
		otherwise:  []clientv3.Op{clientv3.OpGet(format)},
	})
	if err != nil {
		return s.failure(ctx, "create the store", err)
	}
	if !response.Succeeded { // another replica was faster
		return s.checkFormat(response.Responses[0].GetResponseRange().GetKvs()[0].Value)
	}
	return nil
}

// checkFormat returns an error if the record of the format has another value.
func (s *Store) checkFormat(value []byte) error {
	if string(value) != formatValue {
		return fmt.Errorf("%w: the key %q has the value %.64q, this version reads %q", ErrForeign, s.keys.format(), value,
			formatValue)
	}
	return nil
}

// Close ends all calls and waits for the Store's goroutine. It closes the client, unless it is
// Options.Client. It may be called more than once.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() {
		s.end()
		s.tasks.Wait()
		if s.options.Client == nil && s.client != nil {
			err = s.client.Close()
			if errors.Is(err, context.Canceled) {
				err = nil
			}
		}
	})
	return err
}

// until returns a context that also ends when the store is closed.
func (s *Store) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.life.Err() != nil {
		cancel(ErrClosed)
	}
	stop := context.AfterFunc(s.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
