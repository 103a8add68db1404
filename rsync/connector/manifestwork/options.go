// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// ErrInvalid is wrapped by the errors of [New]: the configuration is invalid.
var ErrInvalid = errors.New("manifestwork: the configuration is invalid")

// The labels and annotations of works.
const (
	// LabelManager is the label of each work of the connector. Its value is [Options].Manager.
	LabelManager = domain + "manager"
	// AnnotationAppContext and AnnotationApp are the context and the app for which a work was
	// created, for information. The work may also have objects of later contexts and other apps.
	AnnotationAppContext = domain + "app-context"
	AnnotationApp        = domain + "app"
	// annotationRemoved has hashes of removed objects, until the agent has confirmed the removal.
	annotationRemoved = domain + "removed"

	domain = "rsync.spokewire.io/"
)

// Options configures [New]; the zero value is useful.
type Options struct {
	// Namespace returns the namespace of a cluster's works on the hub. Each cluster must have its
	// own namespace. Defaults to the name of the cluster, without its provider.
	Namespace func(appcontext.ClusterID) string
	// Manager identifies the works of this engine and its replicas. Do not change it while works
	// exist. Defaults to "rsync".
	Manager string
	// Labels and Annotations are added to each work that is written.
	Labels, Annotations map[string]string
	// Executor and DeleteOption are set in each written work. With an orphaning DeleteOption, the
	// objects stay on the cluster, and count as gone.
	Executor     *workv1.ManifestWorkExecutor
	DeleteOption *workv1.DeleteOption
	// Config returns the configuration of an object for the agent: its update strategy and the
	// reported fields of its status, or nil. It must return the same for the same object, and may
	// be called concurrently. Defaults to [DefaultConfig], which Config may call.
	Config func(appcontext.Object) *workv1.ManifestConfigOption
	// State may change the state that Get returns for an object in a work. The argument condition
	// is the agent's report on the object. The report is empty if the agent has not reported yet.
	// State may be called concurrently, and must not retain or change the condition.
	State func(state *connector.State, condition workv1.ManifestCondition)
	// MaxWorkBytes limits a work, in bytes of JSON without its status. An Apply beyond it is a
	// terminal error. Defaults to 1 MiB. Hubs and brokers have limits of their own: OCM's webhook
	// accepts 500 KiB of manifests, API servers with etcd's defaults 1.5 MiB, and a broker has a
	// packet limit.
	MaxWorkBytes int
	// Reachable returns an error if a cluster is unreachable although the hub answers. It is called
	// before each call, so it must be fast. An error without a class means unreachable. If
	// Reachable is nil, works for disconnected clusters wait on the hub.
	Reachable func(context.Context, appcontext.ClusterID) error
}

func (o Options) withDefaults() (Options, error) {
	if o.Namespace == nil {
		o.Namespace = func(id appcontext.ClusterID) string { return id.Name }
	}
	if o.Config == nil {
		o.Config = DefaultConfig
	}
	o.Manager = cmp.Or(o.Manager, "rsync")
	o.MaxWorkBytes = cmp.Or(o.MaxWorkBytes, 1<<20)
	o.Labels, o.Annotations = maps.Clone(o.Labels), maps.Clone(o.Annotations)
	o.Executor, o.DeleteOption = o.Executor.DeepCopy(), o.DeleteOption.DeepCopy()
	if o.MaxWorkBytes < 0 {
		return o, fmt.Errorf("%w: Options.MaxWorkBytes: must not be negative", ErrInvalid)
	}
	if err := checkLabel(LabelManager, o.Manager); err != nil {
		return o, fmt.Errorf("%w: Manager: %w", ErrInvalid, err)
	}
	for key, value := range o.Labels {
		if err := checkLabel(key, value); err != nil {
			return o, fmt.Errorf("%w: Labels: %w", ErrInvalid, err)
		}
		if strings.HasPrefix(key, domain) {
			return o, fmt.Errorf("%w: Labels: keys with %s are the connector's own", ErrInvalid, domain)
		}
	}
	for key := range o.Annotations {
		if wrong := content.IsLabelKey(strings.ToLower(key)); len(wrong) > 0 {
			return o, fmt.Errorf("%w: Annotations: the key %q: %s", ErrInvalid, key, wrong[0])
		}
		if strings.HasPrefix(key, domain) {
			return o, fmt.Errorf("%w: Annotations: keys with %s are the connector's own", ErrInvalid, domain)
		}
	}
	return o, nil
}

func checkLabel(key, value string) error {
	if wrong := content.IsLabelKey(key); len(wrong) > 0 {
		return fmt.Errorf("the key %q: %s", key, wrong[0])
	}
	if wrong := content.IsLabelValue(value); len(wrong) > 0 {
		return fmt.Errorf("the value %q: %s", value, wrong[0])
	}
	return nil
}

// Connectors implements [connector.Connectors] for the clusters of a hub. It has no resources of
// its own, and may be used concurrently.
type Connectors struct {
	works   worktyped.ManifestWorksGetter
	options Options
}

// New returns Connectors that write works with a clientset: WorkV1() of a typed clientset, of the
// clientset of a work.Source, or of a fake. It sends nothing. It returns [ErrInvalid].
func New(works worktyped.ManifestWorksGetter, options Options) (*Connectors, error) {
	if works == nil {
		return nil, fmt.Errorf("%w: the clientset must not be nil", ErrInvalid)
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Connectors{works: works, options: options}, nil
}

// Connector implements [connector.Connectors]. It sends nothing. If Options.Namespace returns an
// invalid name, it returns a terminal error.
func (c *Connectors) Connector(_ context.Context, provider, cluster string) (connector.Connector, error) {
	id := appcontext.ClusterID{Provider: provider, Name: cluster}
	namespace := c.options.Namespace(id)
	if wrong := content.IsPathSegmentName(namespace); namespace == "" || len(wrong) > 0 {
		return nil, driver.Terminal("Options.Namespace of cluster %s: %q: must be the name of a namespace", id, namespace)
	}
	return &conn{
		works: c.works.ManifestWorks(namespace), options: &c.options, id: id, namespace: namespace,
		holders: map[appcontext.Object]string{}, read: map[string]*readWork{},
	}, nil
}

var (
	_ connector.Connectors    = &Connectors{}
	_ connector.StatusWatcher = &conn{}
)
