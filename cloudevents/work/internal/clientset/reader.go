// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// List returns copies of the objects that the options select. Pages, and a list with an exact
// resourceVersion, show the objects of that version. The error is Expired if the version is too
// old: its continue token then selects the rest of the current objects.
func (w *works) List(ctx context.Context, opts metav1.ListOptions) (*workv1.ManifestWorkList, error) {
	objects, meta, err := w.page(ctx, opts)
	if err != nil {
		return nil, err
	}
	list := &workv1.ManifestWorkList{ListMeta: meta, Items: make([]workv1.ManifestWork, len(objects))}
	for i, obj := range objects {
		obj.DeepCopyInto(&list.Items[i])
	}
	return list, nil
}

// page returns the snapshots of a list, and its metadata.
func (w *works) page(ctx context.Context, opts metav1.ListOptions) ([]*workv1.ManifestWork, metav1.ListMeta, error) {
	var meta metav1.ListMeta
	filter, err := w.filter(ctx, opts, false)
	if err != nil {
		return nil, meta, err
	}
	at, from, err := w.listFrom(ctx, opts)
	if err != nil {
		return nil, meta, err
	}
	q := &cache.Query{
		Filter: *filter, At: at, AfterNamespace: from.Namespace, AfterName: from.Name, Limit: int(opts.Limit),
	}
	if opts.ResourceVersion == "0" {
		q.Limit = 0 // any version: from the cache, without pages
	}
	page, err := w.backend.List(ctx, q)
	if apierrors.IsResourceExpired(err) && opts.Continue != "" {
		return nil, meta, pageExpired(from)
	}
	if err != nil {
		return nil, meta, err
	}
	meta.ResourceVersion = strconv.FormatUint(page.Version, 10)
	if page.More {
		if opts.LabelSelector == "" && opts.FieldSelector == "" {
			meta.RemainingItemCount = ptr.To(int64(page.Left))
		}
		last := page.Objects[len(page.Objects)-1]
		meta.Continue = continueToken{meta.ResourceVersion, last.Namespace, last.Name}.String()
	}
	return page.Objects, meta, nil
}

// listFrom returns the version of a list, 0 for the current one, and the position of the object
// before the first.
func (w *works) listFrom(ctx context.Context, opts metav1.ListOptions) (at uint64, from continueToken, err error) {
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return 0, from, badVersion(opts.ResourceVersion, err)
	}
	if opts.Continue != "" {
		if from, err = parseContinue(opts.Continue); err != nil {
			return 0, from, err
		}
		if version != 0 {
			return 0, from, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		at, err = parseVersion(from.Version)
		if err != nil {
			return 0, from, badVersion(from.Version, err)
		}
		return at, from, w.backend.Reached(ctx, at)
	}
	// The first page of a list from a version shows that version, like the other pages.
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact || opts.ResourceVersionMatch == "" && opts.Limit > 0 {
		at = version
	}
	return at, from, w.backend.Reached(ctx, version)
}

// pageExpired returns an error with the API server's text, and a token for the rest of the current
// objects.
func pageExpired(from continueToken) error {
	err := apierrors.NewResourceExpired(
		"The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
			"the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
			"were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	from.Version = ""
	err.ErrStatus.ListMeta.Continue = from.String()
	return err
}

// parseVersion returns 0 for no version and for any version ("0").
func parseVersion(version string) (uint64, error) {
	if version == "" {
		return 0, nil
	}
	return strconv.ParseUint(version, 10, 64)
}

func badVersion(version string, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf(
		"invalid resource version: resourceVersion: Invalid value: %q: %v", version, err))
}

// continueToken is the position of the next page of a list. Its version is that of the first page,
// or empty for current objects.
type continueToken struct {
	Version   string `json:"v"`
	Namespace string `json:"ns"`
	Name      string `json:"n"`
}

func (t continueToken) String() string {
	data, err := json.Marshal(t)
	if err != nil {
		return "" // three strings always encode
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseContinue(s string) (continueToken, error) {
	var t continueToken
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil && t.Name == "" {
		err = errors.New("server does not recognize this encoded version")
	}
	if err != nil {
		return t, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: %v", err))
	}
	return t, nil
}

// Watch begins a watch. The receiver may change the delivered objects, except the bytes of
// manifests.
func (w *works) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	filter, err := w.filter(ctx, opts, true)
	if err != nil {
		return nil, err
	}
	o := cache.WatchOptions{Filter: *filter, Bookmarks: opts.AllowWatchBookmarks}
	if opts.TimeoutSeconds != nil {
		o.Timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, InternalError("resourceVersion: Invalid value: %q: %v", opts.ResourceVersion, err)
	}
	// Without a version, or from any, a watch begins with the existing objects, like a list, unless
	// SendInitialEvents is false. A watch from a future version ends with an error, as if it
	// resumed there.
	initial := ptr.Deref(opts.SendInitialEvents, version == 0)
	if reached := w.backend.Reached(ctx, version); !initial || reached != nil {
		o.Resume, o.Since = true, version
	}
	o.MarkInitialEnd = initial && opts.AllowWatchBookmarks
	return w.backend.Watch(ctx, o)
}

// filter checks the options of a list or watch and converts them to a filter.
func (w *works) filter(ctx context.Context, opts metav1.ListOptions, forWatch bool) (*cache.Filter, error) {
	if err := w.reachable(ctx); err != nil {
		return nil, err
	}
	f := &cache.Filter{Namespace: w.namespace}
	if opts.LabelSelector != "" {
		selector, err := labels.Parse(opts.LabelSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse label selector %q: %v", opts.LabelSelector, err))
		}
		f.Labels = selector
	}
	if opts.FieldSelector != "" {
		selector, err := fields.ParseSelector(opts.FieldSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse field selector %q: %v", opts.FieldSelector, err))
		}
		for _, r := range selector.Requirements() {
			if r.Field != cache.FieldName && r.Field != cache.FieldNamespace {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
			}
		}
		f.Select(selector)
	}
	internal := &internalversion.ListOptions{}
	if err := internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&opts, internal, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	internal.Watch = forWatch
	internalversion.SetListOptionsDefaults(internal, true)
	if errs := validation.ValidateListOptions(internal, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return f, nil
}
