// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Policy-watcher is a small controller that renders the templates of policies. A template refers to
// Secrets and ConfigMaps of the policy's namespace. When one of them is created, changed or
// deleted, the policies that refer to it are rendered again, at once. Each object has one API
// watch, shared by all policies, and there is no cache.
//
// Run it against the cluster of a kubeconfig, with the right to manage CRDs:
//
//	go run ./examples/policy-watcher --kubeconfig ~/.kube/config
//
// It installs its CRD. Then create a policy and its objects:
//
//	kubectl create secret generic database --from-literal=user=alice
//	kubectl apply -f - <<END
//	apiVersion: policy.spokewire.example/v1
//	kind: Policy
//	metadata: {name: greeting}
//	spec:
//	  template: 'Hello {{ fromSecret "database" "user" }}, your plan is {{ fromConfigMap "plans" "default" }}.'
//	END
//	kubectl get policy greeting -o jsonpath='{.status}'
//
// The status reports that the ConfigMap is missing, until it is created:
//
//	kubectl create configmap plans --from-literal=default=gold
//
// The gauge hub_templates_active_watch_count at http://localhost:8080/metrics is the number of API
// watches. This example writes data of Secrets to the status of policies, to make it visible. A
// controller for production must not do this.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/source"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// usage is the text of --help.
const usage = `Usage: go run ./examples/policy-watcher [flags]

Renders the templates of policies, and renders them again when a Secret or ConfigMap that a template
refers to is created, changed or deleted. Installs the CRD of policies.

  --kubeconfig FILE  the kubeconfig of the cluster (default: the environment variable KUBECONFIG,
                     the pod's configuration, or ~/.kube/config)
  --metrics ADDRESS  serve /metrics at this address; 0 turns it off (default :8080)
  --help             show this help

Exit status: 0 after an interrupt, 1 after a failure, 2 for a wrong command line.
`

// options are the options of the command line.
type options struct{ Kubeconfig, Metrics string }

// parse reads arguments, without the program's name.
func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("policy-watcher")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&o.Metrics, "metrics", ":8080", "")
	if err := cmp.Or(flags.Parse(args), flags.NotEmpty("kubeconfig")); err != nil {
		return options{}, err
	}
	if _, _, err := net.SplitHostPort(o.Metrics); err != nil && o.Metrics != "0" {
		return options{}, fmt.Errorf("--metrics must be a host:port, or 0: %w", err)
	}
	return o, nil
}

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "policy-watcher", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(o options) error {
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(stderr)))
		klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
		ctrl.SetLogger(logger)
		return policyWatcher(klog.NewContext(ctx, logger), o, stdout)
	})
}

// policyWatcher runs the controller until ctx ends.
func policyWatcher(ctx context.Context, o options, stdout io.Writer) error {
	config, err := command.LoadKubeconfig("--kubeconfig", o.Kubeconfig)
	if err != nil {
		return err
	}
	if err := installCRD(ctx, config); err != nil {
		return fmt.Errorf("install the CRD on %s: %w", config.Host, err)
	}
	m, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: o.Metrics}})
	if err != nil {
		return err
	}
	// The objects of templates are a second source of the controller, in addition to the policies.
	templates, err := source.New(&dynamicwatcher.Options{Config: config})
	if err != nil {
		return err
	}
	watcher := templates.Watcher()
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hub_templates_active_watch_count", Help: "Number of API watches on objects that templates refer to.",
	}, func() float64 { return float64(watcher.GetWatchCount()) })
	if err := metrics.Registry.Register(gauge); err != nil {
		return err
	}
	defer metrics.Registry.Unregister(gauge)
	r := &reconciler{client: m.GetClient(), reader: m.GetAPIReader(), watcher: watcher}
	// The manager's cache has the policies, but not the objects of their templates.
	builder := ctrl.NewControllerManagedBy(m).Named("policy").For(newPolicy()).WatchesRawSource(templates)
	if err := builder.Complete(r); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "Rendering policies on %s; Ctrl-C stops.\n", config.Host); err != nil {
		return err
	}
	return m.Start(ctx)
}
