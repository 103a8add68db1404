// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	_ "embed" // the CRD
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed multicluster.x-k8s.io_appliedworks.yaml
var crdYAML []byte

const (
	// CRDName is the name of the CustomResourceDefinition.
	CRDName = "appliedworks." + GroupName
	// schemaRevision increases with each released change of the schema: older programs do not undo
	// it.
	schemaRevision         = 2
	annotationSchema       = GroupName + "/schema-revision"
	establishedCheckPeriod = 50 * time.Millisecond
	temporaryLimit         = 10 * time.Second
)

// CRDResource is the resource of CustomResourceDefinitions.
var CRDResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// CRDClient is the part of a dynamic client that [EnsureCRD] needs:
// client.Resource(v1alpha1.CRDResource) implements it.
//
// +kubebuilder:object:generate=false
type CRDClient interface {
	// Get, Create and Update are those of client-go's dynamic.ResourceInterface.
	Get(
		ctx context.Context, name string, options metav1.GetOptions, subresources ...string,
	) (*unstructured.Unstructured, error)
	Create(
		ctx context.Context, obj *unstructured.Unstructured, options metav1.CreateOptions, subresources ...string,
	) (*unstructured.Unstructured, error)
	Update(
		ctx context.Context, obj *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string,
	) (*unstructured.Unstructured, error)
}

// CRD returns the CustomResourceDefinition of AppliedWork. The caller may change it.
func CRD() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crdYAML, &crd.Object); err != nil {
		panic(fmt.Sprintf("the embedded CRD: %v", err)) // a test decodes it
	}
	setSchemaRevision(crd, schemaRevision)
	return crd
}

// EnsureCRD installs the CRD or updates it, and returns when the API server has established it or
// ctx ends. It never downgrades: it keeps a CRD of a newer schema revision, and a version v1alpha1
// with more fields than ours. It also keeps all other versions of the CRD. A CRD that is being
// deleted is installed again after it is gone.
//
// Conflicts are retried until ctx ends, temporary errors for 10 seconds: a timeout, 404, 429, 500
// or 503, and a lost connection. The error is that of the API server, that of ctx with the reason
// for the delay, or [ErrOtherCRD].
func EnsureCRD(ctx context.Context, client CRDClient) error {
	delay := "it was not read yet"
	var failing time.Time // of the first of successive temporary errors
	err := wait.PollUntilContextCancel(ctx, establishedCheckPeriod, true, func(ctx context.Context) (bool, error) {
		live, err := writeCRD(ctx, client)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
			failing, delay = time.Time{}, "others change it all the time"
			return false, nil // read it again
		case isTemporary(err):
			if failing.IsZero() {
				failing = time.Now()
			}
			if time.Since(failing) > temporaryLimit {
				return false, err
			}
			delay = err.Error()
			return false, nil
		case err != nil:
			return false, err
		}
		failing, delay = time.Time{}, delayOf(live)
		return delay == "", nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("install the CRD %s: %s: %w", CRDName, delay, err)
	}
	if err != nil {
		return fmt.Errorf("install the CRD %s: %w", CRDName, err)
	}
	return nil
}

func writeCRD(ctx context.Context, client CRDClient) (*unstructured.Unstructured, error) {
	live, err := client.Get(ctx, CRDName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return client.Create(ctx, CRD(), metav1.CreateOptions{FieldManager: GroupName})
	case err != nil || live.GetDeletionTimestamp() != nil:
		return live, err
	}
	if err := checkCRD(live); err != nil {
		return nil, err
	}
	if merged, changed := mergeCRD(live); changed {
		return client.Update(ctx, merged, metav1.UpdateOptions{FieldManager: GroupName})
	}
	return live, nil
}

// isTemporary reports whether the same request may succeed later. After a 404, the CRD was deleted
// during its update, or the API server does not serve CRDs yet.
func isTemporary(err error) bool {
	_, delayed := apierrors.SuggestsClientDelay(err)
	return delayed || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ErrOtherCRD reports that the cluster has another CRD with the name of our CRD.
var ErrOtherCRD = errors.New("the existing CRD has another kind or scope, or does not serve v1alpha1")

// checkCRD returns an error for a CRD that an update cannot correct.
func checkCRD(live *unstructured.Unstructured) error {
	kind, _, _ := unstructured.NestedString(live.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(live.Object, "spec", "scope")
	if kind != Kind || scope != "Cluster" {
		return fmt.Errorf("%w: kind %s, scope %s", ErrOtherCRD, kind, scope)
	}
	if revisionOf(live) < schemaRevision {
		return nil // mergeCRD adds our version
	}
	for _, v := range versionsOf(live) {
		if v["name"] == GroupVersion.Version && v["served"] == true {
			return nil
		}
	}
	return fmt.Errorf("%w: schema revision %d", ErrOtherCRD, revisionOf(live))
}

// delayOf returns the reason why the API server does not serve a CRD, or an empty string.
func delayOf(crd *unstructured.Unstructured) string {
	if crd.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	reason := "the API server has not established it"
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		switch {
		case c["type"] == "Established" && c["status"] == "True":
			return ""
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			reason = fmt.Sprintf("its names are not accepted: %v", c["message"])
		}
	}
	return reason
}
