// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// DefaultWatchGracePeriod is the default of [Options].WatchGracePeriod.
const DefaultWatchGracePeriod = 10 * time.Second

// Options configures a [Server].
type Options struct {
	// Recommended are the options of k8s.io/apiserver: the address and the certificate, the cluster
	// that authenticates and authorizes requests, audit, admission, priority and fairness. Etcd is
	// nil. A nil part is off, for example Admission; SecureServing must not be nil.
	Recommended *genericoptions.RecommendedOptions
	// ReadOnly refuses all writes with MethodNotSupported. Discovery then shows get, list and watch.
	ReadOnly bool
	// ShutdownDelay is how long the server still accepts requests after the context of Start has
	// ended, while /readyz fails. Set it to the time that load balancers need. Defaults to 0.
	ShutdownDelay time.Duration
	// WatchGracePeriod is how long the server waits for the end of its watches. NewOptions sets it
	// to 10 s. With 0, the server closes the connections of watches without waiting.
	WatchGracePeriod time.Duration
}

// NewOptions returns the defaults: a server on port 443 of all addresses with a certificate that it
// signs itself, in the cluster of its pod, with all parts of k8s.io/apiserver.
func NewOptions() *Options {
	o := &Options{
		Recommended:      genericoptions.NewRecommendedOptions("", nil),
		WatchGracePeriod: DefaultWatchGracePeriod,
	}
	o.Recommended.Etcd = nil
	o.Recommended.SecureServing.Required = true
	// A generated certificate stays in memory.
	o.Recommended.SecureServing.ServerCert.CertDirectory, o.Recommended.SecureServing.ServerCert.PairName = "", ""
	return o
}

// AddFlags adds the flags of k8s.io/apiserver that all aggregated API servers have, such as
// --secure-port, --tls-cert-file, --kubeconfig and --audit-log-path, and the flags --read-only,
// --shutdown-delay-duration and --shutdown-watch-termination-grace-period. A value of --kubeconfig is
// also the default of --authentication-kubeconfig and --authorization-kubeconfig.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Recommended.AddFlags(flags)
	flags.BoolVar(&o.ReadOnly, "read-only", o.ReadOnly, "refuse all writes")
	flags.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay,
		"how long the server accepts requests after SIGTERM, while /readyz fails")
	flags.DurationVar(&o.WatchGracePeriod, "shutdown-watch-termination-grace-period", o.WatchGracePeriod,
		"how long the server waits for the end of its watches after SIGTERM")
}

// Validate returns an error that names the invalid options.
func (o *Options) Validate() error {
	switch {
	case o == nil || o.Recommended == nil:
		return errors.New("invalid Options.Recommended: must not be nil: use NewOptions")
	case o.Recommended.Etcd != nil:
		return errors.New("invalid Options.Recommended.Etcd: must be nil: works are not stored in etcd")
	case o.Recommended.SecureServing == nil:
		return errors.New("invalid Options.Recommended.SecureServing: must not be nil")
	}
	var errs []error
	for name, d := range map[string]time.Duration{
		"ShutdownDelay": o.ShutdownDelay, "WatchGracePeriod": o.WatchGracePeriod,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("invalid Options.%s: %v: must not be negative", name, d))
		}
	}
	return errors.Join(append(errs, o.Recommended.Validate()...)...)
}
