// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

func service() interpreter.HandlerFor[*corev1.Service] {
	type object = *corev1.Service
	return interpreter.HandlerFor[object]{
		Retain: retainService,
		Aggregate: func(_ context.Context, s object, items []interpreter.AggregatedStatusItem) error {
			if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
				return nil
			}
			var all []corev1.LoadBalancerIngress
			_, err := eachStatus(items, func(_ string, status *corev1.ServiceStatus) {
				all = union(all, status.LoadBalancer.Ingress, encoded)
			})
			if err == nil {
				s.Status.LoadBalancer.Ingress = all
			}
			return err
		},
		Health: func(_ context.Context, s object) (bool, error) {
			return s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0, nil
		},
	}
}

// retainService keeps the addresses and ports that the cluster has given.
func retainService(_ context.Context, desired, observed *corev1.Service) error {
	d, o := &desired.Spec, &observed.Spec
	if d.Type == corev1.ServiceTypeExternalName || o.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	if d.ClusterIP == "" {
		d.ClusterIP, d.ClusterIPs = o.ClusterIP, o.ClusterIPs
	}
	if len(d.IPFamilies) == 0 {
		d.IPFamilies = o.IPFamilies
	}
	if d.IPFamilyPolicy == nil {
		d.IPFamilyPolicy = o.IPFamilyPolicy
	}
	if d.Type == "" || d.Type == corev1.ServiceTypeClusterIP {
		return nil
	}
	if d.HealthCheckNodePort == 0 && d.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		d.HealthCheckNodePort = o.HealthCheckNodePort
	}
	given := make(map[portKey]int32, len(o.Ports))
	for i := range o.Ports {
		given[keyOf(&o.Ports[i])] = o.Ports[i].NodePort
	}
	for i := range d.Ports {
		if p := &d.Ports[i]; p.NodePort == 0 {
			p.NodePort = given[keyOf(p)]
		}
	}
	return nil
}

// portKey tells the ports of a service apart.
type portKey struct {
	protocol corev1.Protocol
	port     int32
}

func keyOf(p *corev1.ServicePort) portKey {
	return portKey{protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), port: p.Port}
}

func ingress() interpreter.HandlerFor[*networkingv1.Ingress] {
	type object = *networkingv1.Ingress
	return interpreter.HandlerFor[object]{
		Aggregate: func(_ context.Context, i object, items []interpreter.AggregatedStatusItem) error {
			var all []networkingv1.IngressLoadBalancerIngress
			_, err := eachStatus(items, func(_ string, status *networkingv1.IngressStatus) {
				all = union(all, status.LoadBalancer.Ingress, encoded)
			})
			if err == nil {
				i.Status.LoadBalancer.Ingress = all
			}
			return err
		},
		// The certificate of a TLS entry without a secret is the ingress controller's own.
		Dependencies: func(_ context.Context, i object) ([]interpreter.DependentObjectReference, error) {
			r := references{namespace: i.Namespace}
			for _, tls := range i.Spec.TLS {
				r.add("Secret", tls.SecretName)
			}
			return r.sorted(), nil
		},
		Health: func(_ context.Context, i object) (bool, error) { return len(i.Status.LoadBalancer.Ingress) > 0, nil },
	}
}
