// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package spoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/fields"
)

// optionsFor returns the options to apply a manifest, by its update strategy.
func (id *identity) optionsFor(ctx context.Context, o *Outcome) (appliedwork.ObjectOptions, error) {
	switch o.Strategy() {
	case workv1.UpdateStrategyTypeUpdate: // StrategyUpdate would need the right to update instead of patch
		return appliedwork.ObjectOptions{Force: true}, nil
	case workv1.UpdateStrategyTypeCreateOnly:
		return appliedwork.ObjectOptions{Strategy: appliedwork.StrategyCreateOnly}, nil
	case workv1.UpdateStrategyTypeServerSideApply:
		if config := o.Config.UpdateStrategy.ServerSideApply; config != nil {
			return id.serverSideApply(ctx, o, config)
		}
		return appliedwork.ObjectOptions{}, nil
	}
	return appliedwork.ObjectOptions{}, fmt.Errorf("the update strategy %q is unknown: write Update, "+
		"CreateOnly, ServerSideApply or ReadOnly", o.Strategy())
}

// serverSideApply returns the options of a server-side apply, with the ignored fields.
func (id *identity) serverSideApply(
	ctx context.Context, o *Outcome, config *workv1.ServerSideApplyConfig,
) (with appliedwork.ObjectOptions, err error) {
	with.FieldManager, with.Force = config.FieldManager, config.Force
	if m := with.FieldManager; m != "" && (!strings.HasPrefix(m, workv1.DefaultFieldManager) || len(m) > 90) {
		return with, fmt.Errorf("the field manager %.100q is not allowed: it must begin with %s and have at "+
			"most 90 characters", m, workv1.DefaultFieldManager)
	}
	for _, f := range config.IgnoreFields {
		// Whether a field is found by comparing values, and how long that takes, would reveal the
		// values of a Secret to the hub.
		if texts := slices.Concat(f.JSONPaths, f.JQPathExpressions); o.Guarded && len(texts) > 0 {
			return with, &fields.Error{Path: texts[0], Err: errors.New(
				"rules must not read Secrets: name the field in jsonPointers, or start the agent with " +
					"--secret-feedback")}
		}
	}
	var live *unstructured.Unstructured
	if o.Served && fields.NeedsLive(config.IgnoreFields) {
		live, err = id.read(ctx, &o.Manifest, o.Resource.Version)
		if err != nil && !apierrors.IsNotFound(err) {
			return with, fmt.Errorf("read %s: %w", o.Key, err)
		}
	}
	err = fields.Ignored(ctx, o.Object, live, config.IgnoreFields, &with)
	return with, err
}
