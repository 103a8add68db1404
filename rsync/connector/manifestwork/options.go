// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork

import (
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
)

// ErrInvalid is what [New] returns for a configuration that cannot work; the error says what and where.
var ErrInvalid = errors.New("manifestwork: the configuration is invalid")

// The labels and annotations of works.
const (
	// LabelManager is on each work of ours, with [Options].Manager as its value.
	LabelManager = domain + "manager"
	// AnnotationAppContext and AnnotationApp say, for people, whose objects a work was made for. It may hold objects of later
	// contexts and other apps too.
	AnnotationAppContext = domain + "app-context"
	AnnotationApp        = domain + "app"
	// AnnotationRemoved has hashes of the objects that were taken out of a work, until its agent has reported on that.
	AnnotationRemoved = domain + "removed"

	domain = "rsync.spokewire.io/"
)

// Defaults of [Options].
const (
	DefaultManager      = "rsync"
	DefaultMaxWorkBytes = 1 << 20
)

// Options configures [New]; the zero value is useful.
type Options struct {
	// Namespace returns the namespace on the hub that has the works of a cluster. No two clusters may have the same one: they
	// would be one cluster, on which each object is there once. Defaults to the cluster's name, whatever its provider is.
	Namespace func(appcontext.ClusterID) string
	// Manager tells the works of this engine, and of its replicas, from those of others: it is the value of LabelManager, and part
	// of what names are made of. It must stay the same for as long as there are works. Defaults to DefaultManager.
	Manager string
	// Labels and Annotations are added to each work that is written.
	Labels, Annotations map[string]string
	// Executor and DeleteOption are those of each work that is written. With an orphaning DeleteOption objects stay on the cluster
	// when the last one of a work is deleted, and count as gone.
	Executor     *workv1.ManifestWorkExecutor
	DeleteOption *workv1.DeleteOption
	// Config returns how the agent is to treat an object: its update strategy, and which fields of its status it reports; nil for
	// nothing in particular. It must return the same for the same object, and is called concurrently. Defaults to [DefaultConfig],
	// which it may call to add to what that returns.
	Config func(appcontext.Object) *workv1.ManifestConfigOption
	// State may change what Get says of an object that is in a work, from what the agent reported on it; the condition is empty
	// where the agent has not yet. It is called concurrently, and must not keep or change the condition.
	State func(state *connector.State, condition workv1.ManifestCondition)
	// MaxWorkBytes is how large a work may be, in bytes of JSON without its status. An Apply that would make it larger is a terminal
	// error. Defaults to 1 MiB. Hubs and brokers have limits of their own: OCM's webhook takes 500 KiB of manifests, API servers with
	// etcd's default 1.5 MiB, a broker what its packet limit says.
	MaxWorkBytes int
	// Reachable says whether a cluster can be reached at all, beyond that the hub answers. It is asked before each call, so it
	// must be quick. An error without a class means that the cluster is not reachable. Nil asks nobody: works then wait on
	// the hub for clusters that are away. For works over CloudEvents, Source.Healthy tells whether the broker is there.
	Reachable func(context.Context, appcontext.ClusterID) error
}

func (o Options) withDefaults() (Options, error) {
	if o.Namespace == nil {
		o.Namespace = func(id appcontext.ClusterID) string { return id.Name }
	}
	if o.Manager == "" {
		o.Manager = DefaultManager
	}
	if o.Config == nil {
		o.Config = DefaultConfig
	}
	if o.MaxWorkBytes == 0 {
		o.MaxWorkBytes = DefaultMaxWorkBytes
	}
	o.Labels, o.Annotations = maps.Clone(o.Labels), maps.Clone(o.Annotations)
	o.Executor, o.DeleteOption = o.Executor.DeepCopy(), o.DeleteOption.DeepCopy()
	if o.MaxWorkBytes < 0 {
		return o, fmt.Errorf("%w: MaxWorkBytes is negative", ErrInvalid)
	}
	for key, value := range map[string]string{LabelManager: o.Manager} {
		if err := checkLabel(key, value); err != nil {
			return o, fmt.Errorf("%w: Manager: %w", ErrInvalid, err)
		}
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

// Connectors makes connectors for the clusters of a hub. It is a [connector.Connectors], holds nothing itself, and may be used
// concurrently.
type Connectors struct {
	works   worktyped.ManifestWorksGetter
	options Options
}

// New returns Connectors that keep works through a clientset: WorkV1() of the typed clientset, of the one of a work.Source, or of
// a fake. It sends nothing. It returns [ErrInvalid].
func New(works worktyped.ManifestWorksGetter, options Options) (*Connectors, error) {
	if works == nil {
		return nil, fmt.Errorf("%w: there is no clientset", ErrInvalid)
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Connectors{works: works, options: options}, nil
}

// Connector implements [connector.Connectors]. It sends nothing. Where Options.Namespace returns what cannot be a namespace it
// returns a terminal error.
func (c *Connectors) Connector(_ context.Context, provider, cluster string) (connector.Connector, error) {
	id := appcontext.ClusterID{Provider: provider, Name: cluster}
	namespace := c.options.Namespace(id)
	if wrong := content.IsPathSegmentName(namespace); namespace == "" || len(wrong) > 0 {
		return nil, &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf("the cluster %s has the namespace %q, which cannot be one", id, namespace)}
	}
	return &conn{
		works: c.works.ManifestWorks(namespace), options: &c.options, id: id, namespace: namespace,
		holders: map[appcontext.Object]string{},
	}, nil
}

var (
	_ connector.Connectors    = &Connectors{}
	_ connector.StatusWatcher = &conn{}
)
