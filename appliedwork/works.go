// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	// worksPage is the number of whole AppliedWorks in one page: each may have 1 MiB.
	worksPage = 50
	// worksFactor limits the AppliedWorks in a full list, as a multiple of the requested ones.
	worksFactor = 10
)

func listed(work metav1.Object) *listedWork {
	w := &listedWork{
		name: work.GetName(), uid: work.GetUID(), version: work.GetResourceVersion(), of: work.GetUID(),
		ending: isEnding(work),
	}
	if of := work.GetLabels()[v1alpha1.LabelShardOf]; of != "" {
		w.of = types.UID(of)
	}
	return w
}

// listWorks returns all AppliedWorks with shards, from a consistent list, and its resourceVersion.
func (t *Tracker) listWorks(ctx context.Context) (works []*listedWork, version string, err error) {
	client := t.opts.InventoryMetadata.Resource(v1alpha1.GroupVersionResource)
	version, err = eachMetadata(ctx, client, func(work metav1.Object) {
		works = append(works, listed(work))
	})
	return works, version, err
}

// eachMetadata calls visit with the metadata of each object, and returns the version of the list.
func eachMetadata(
	ctx context.Context, client metadata.ResourceInterface, visit func(metav1.Object),
) (version string, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return page.ResourceVersion, nil
		}
	}
}

// readAt reads some of all AppliedWorks of a list at its resourceVersion. A later version could
// lack an entry that has moved to another AppliedWork since.
func (t *Tracker) readAt(
	ctx context.Context, version string, works []*listedWork, all int, visit func(*v1alpha1.AppliedWork),
) error {
	asked := make(map[types.UID]*listedWork, len(works))
	for _, w := range works {
		asked[w.uid] = w
	}
	var mu sync.Mutex
	read := func(work *v1alpha1.AppliedWork) {
		mu.Lock()
		defer mu.Unlock()
		if w := asked[work.UID]; w != nil && w.version == work.ResourceVersion {
			delete(asked, work.UID)
			visit(work)
		}
	}
	options := metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	var err error
	if len(works) > worksPage && len(works)*worksFactor > all {
		err = t.eachWork(ctx, options, read)
	} else {
		errs := make([]error, len(works))
		parallel(ctx, len(works), defaultConcurrency, func(i int) {
			one := options
			one.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, works[i].name).String()
			errs[i] = t.eachWork(ctx, one, read)
		})
		err = errors.Join(errors.Join(errs...), ctx.Err())
	}
	if err == nil && len(asked) > 0 {
		err = fmt.Errorf("the API server does not return %d AppliedWorks at resourceVersion %s", len(asked), version)
	}
	return err
}

// eachWork calls visit with each AppliedWork, including shards.
func (t *Tracker) eachWork(ctx context.Context, options metav1.ListOptions, visit func(*v1alpha1.AppliedWork)) error {
	options.Limit = worksPage
	for {
		page, err := t.works().List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			s, err := decodeShard(&page.Items[i])
			if err != nil {
				return err
			}
			t.addKinds(ctx, s.work.Status.AppliedResources)
			visit(s.work)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
		options.ResourceVersion, options.ResourceVersionMatch = "", "" // the token has them
	}
}
