// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// ErrInvalid is wrapped by the errors of [New]: the configuration is invalid.
var ErrInvalid = errors.New("kube: the configuration is invalid")

// Cluster is the configuration of a cluster. Exactly one of Config, Kubeconfig and Load is set. A
// value prints without credentials.
type Cluster struct {
	// Config is used without changes, except that its Timeout is ignored. Its QPS, Burst and
	// RateLimiter take precedence over Options.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig file. It may name an exec credential plugin, so it
	// must be trusted.
	Kubeconfig string
	// Context is the context of the kubeconfig. Defaults to its current context.
	Context string
	// Load returns a configuration, for example from a Secret: see [Directory]. It may be called
	// concurrently, and must return when ctx ends. Its errors may be [connector.Error]s; other
	// errors are retryable. Logs and statuses include their texts.
	Load Loader
}

// Loader returns the configuration of a cluster.
type Loader func(ctx context.Context, cluster appcontext.ClusterID) (*rest.Config, error)

// String returns the kind of the configuration, without credentials.
func (c Cluster) String() string {
	switch {
	case c.Config != nil:
		return "{config of " + withoutUser(c.Config.Host) + "}"
	case c.Kubeconfig != "":
		return "{kubeconfig " + c.Kubeconfig + "}"
	}
	return "{}"
}

// withoutUser removes a user and a password from a host, in case they are there by mistake.
func withoutUser(host string) string {
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		return "[redacted]@" + host[i+1:]
	}
	return host
}

// GoString is String.
func (c Cluster) GoString() string { return c.String() }

func (c Cluster) validate() error {
	ways := 0
	for _, given := range []bool{c.Config != nil, c.Kubeconfig != "", c.Load != nil} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("%w: Cluster: %d of Config, Kubeconfig and Load are set: must be one", ErrInvalid, ways)
	case c.Config != nil && c.Config.Host == "":
		return fmt.Errorf("%w: Config has no Host", ErrInvalid)
	case c.Context != "" && c.Kubeconfig == "":
		return fmt.Errorf("%w: Cluster.Context: must be empty without Kubeconfig", ErrInvalid)
	}
	return nil
}

// Options configures [New]; the zero value is useful.
type Options struct {
	// FieldManager is the owner of applied fields: 1 to 128 printable bytes. Do not change it: the
	// fields of the earlier manager stay. Defaults to "rsync".
	FieldManager string
	// Force takes ownership of fields of other managers. Without Force a conflict is a terminal
	// error that names the fields and their owners.
	Force bool
	// AwaitKinds makes a kind that the cluster does not serve a retryable error instead of a
	// terminal one. Use it if other systems install the definitions of custom resources.
	AwaitKinds bool
	// Propagation is the propagation policy of deletions. Defaults to Background. With Foreground
	// an object is gone after its dependents.
	Propagation metav1.DeletionPropagation
	// QPS and Burst limit the requests to one cluster, in requests per second. Probes and discovery
	// do not count. They default to 200 and 400.
	QPS   float32
	Burst int
	// Timeout limits one request and one call of the Interpreter. The time that a request waits for
	// the rate limit does not count. Defaults to 30 s.
	Timeout time.Duration
	// EstablishTimeout limits how long Apply waits until a CustomResourceDefinition is served. Then
	// it returns a retryable error. Defaults to 20 s.
	EstablishTimeout time.Duration
	// Concurrency is the number of concurrent requests of one call. Defaults to 16.
	Concurrency int
	// MaxObjectBytes limits one manifest. Defaults to 1.5 MiB, as in API servers.
	MaxObjectBytes int
	// MaxResponseBytes limits one answer, except watches. Defaults to 64 MiB.
	MaxResponseBytes int64
	// MaxWatches limits the watches on one cluster. Each watch has one kind in one namespace. The
	// engine polls objects beyond the limit. Defaults to 32.
	MaxWatches int
	// Interpreter decides whether an object is ready, if it supports the kind. A Pod, Job, Deployment,
	// StatefulSet, DaemonSet, ReplicaSet, Service, PersistentVolumeClaim and CustomResourceDefinition
	// must also satisfy the rule of its kind. An object of any other kind that the Interpreter reports
	// as healthy has not failed, even if its status reports a failure. An unhealthy object has failed
	// only if it would have failed without an Interpreter. If an object has a
	// status.observedGeneration, it is ready only if this number equals its metadata.generation.
	//
	// After an error, or without an answer, the object is not ready. Its message omits the text of
	// the error, which may quote the object. The log has the text, at most once a minute for each
	// kind, except for a Secret.
	//
	// After an error the interpreter is called again after 5 s. For each kind, about as many calls
	// run at the same time as Concurrency allows. Get waits for answers for at most 1 s. A later
	// answer counts for the next Get. If the object has changed meanwhile, it is ready only after
	// another healthy answer.
	//
	// Defaults to no Interpreter.
	Interpreter Interpreter
	// Clock is the clock of watches. Defaults to the real clock.
	Clock clock.WithTicker
}

func (o Options) withDefaults() (Options, error) {
	for _, n := range []struct {
		option   string
		value    any
		negative bool
	}{
		{"QPS", o.QPS, o.QPS < 0}, {"Burst", o.Burst, o.Burst < 0}, {"Timeout", o.Timeout, o.Timeout < 0},
		{"EstablishTimeout", o.EstablishTimeout, o.EstablishTimeout < 0},
		{"Concurrency", o.Concurrency, o.Concurrency < 0}, {"MaxObjectBytes", o.MaxObjectBytes, o.MaxObjectBytes < 0},
		{"MaxResponseBytes", o.MaxResponseBytes, o.MaxResponseBytes < 0}, {"MaxWatches", o.MaxWatches, o.MaxWatches < 0},
	} {
		if n.negative {
			return o, fmt.Errorf("%w: Options.%s: %v: must not be negative", ErrInvalid, n.option, n.value)
		}
	}
	if len(o.FieldManager) > 128 || !printable(o.FieldManager) {
		return o, fmt.Errorf("%w: Options.FieldManager: must have at most 128 bytes, all printable", ErrInvalid)
	}
	o.FieldManager = cmp.Or(o.FieldManager, "rsync")
	o.Propagation = cmp.Or(o.Propagation, metav1.DeletePropagationBackground)
	switch o.Propagation {
	case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
	default:
		return o, fmt.Errorf("%w: Options.Propagation: %q: must be Background, Foreground or Orphan", ErrInvalid,
			o.Propagation)
	}
	o.QPS = cmp.Or(o.QPS, 200)
	o.Burst = cmp.Or(o.Burst, 400)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.EstablishTimeout = cmp.Or(o.EstablishTimeout, 20*time.Second)
	o.Concurrency = cmp.Or(o.Concurrency, 16)
	o.MaxObjectBytes = cmp.Or(o.MaxObjectBytes, 3<<19)
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, 64<<20)
	o.MaxWatches = cmp.Or(o.MaxWatches, 32)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}
